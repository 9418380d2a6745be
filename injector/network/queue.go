//go:build linux

package network

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf/asm"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/nfqueue"
	"github.com/squall-chaos/squall/injector/oneline"
	"github.com/squall-chaos/squall/injector/queueing"
	"github.com/squall-chaos/squall/injector/target"
)

// The default jitter of a delay and its least value, in percent.
const (
	defaultJitter = 10
	leastJitter   = time.Millisecond
)

// demandOf returns what the parameters require of queues.
func demandOf(params v1beta1.NetworkDisruption) queueing.Demand {
	demand := queueing.Demand{Delay: time.Duration(params.Delay) * time.Millisecond, Rate: params.BandwidthLimit}
	if demand.Delay > 0 {
		percent := cmp.Or(params.DelayJitter, defaultJitter)
		demand.Jitter = max(demand.Delay*time.Duration(percent)/100, leastJitter)
	}
	return demand
}

// queues is how a kernel delays packets. The zero value delays none.
type queues struct {
	// device is the part that devices of the kernel do, held the part of this process.
	device, held queueing.Demand
}

// chooseQueues tries, in network namespaces of its own, which mechanisms of the kernel meet
// the demand.
func chooseQueues(demand queueing.Demand) (queues, error) {
	if demand == (queueing.Demand{}) {
		return queues{}, nil
	}
	inKernel := probe(queues{device: demand})
	if inKernel == nil {
		return queues{device: demand}, nil
	}
	if demand.Delay == 0 {
		return queues{}, fmt.Errorf("bandwidthLimit: %w", inKernel)
	}
	q := queues{held: queueing.Demand{Delay: demand.Delay, Jitter: demand.Jitter}, device: queueing.Demand{Rate: demand.Rate}}
	if err := probe(queues{held: q.held}); err != nil {
		return queues{}, fmt.Errorf("delay: neither in the kernel: %w; nor in user space: %w", inKernel, err)
	}
	if q.device.Rate > 0 {
		if err := probe(queues{device: q.device}); err != nil {
			return queues{}, fmt.Errorf("bandwidthLimit: %w", err)
		}
	}
	return q, nil
}

// String names the mechanisms.
func (q queues) String() string {
	var names []string
	for name, used := range map[string]bool{
		"delay by netem": q.device.Delay > 0, "delay by NFQUEUE": q.held.Delay > 0, "bandwidthLimit by HTB": q.device.Rate > 0,
	} {
		if used {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// Notes describes the side effect of delaying packets in user space.
func (i *Injector) Notes() []string {
	for _, n := range i.namespaces {
		if n.queue != nil && n.queue.delayer != nil {
			return []string{"the kernel has no netem, so packets are delayed in user space: a TCP connection sends about two segments per delay"}
		}
	}
	return nil
}

// queue delays packets in one network namespace.
type queue struct {
	attach.Point
	queues
	netns   target.Netns
	rules   []classifier.Rule   // with no effect but Queue
	cgroups *classifier.Cgroups // whose packets are meant; nil: all packets are
	// loopback is true if packets of the target to itself are delayed too.
	loopback bool

	counts   *classifier.Counts // of the packets its programs select
	attached attach.Attachment  // nil without a device
	delayer  *nfqueue.Delayer   // nil if this process delays no packets
}

// in returns the queue in a namespace, nil if no packet is delayed. It refuses to work
// beside the queue of another injection: chance would decide which queue gets a packet.
func (q queues) in(netns target.Netns, p attach.Point) (*queue, error) {
	if q == (queues{}) {
		return nil, nil
	}
	if err := queueing.Free(netns.Path, p.Mark); err != nil {
		return nil, err
	}
	tables, err := delayTables(netns.Path)
	if err != nil {
		return nil, err
	}
	for _, table := range tables {
		if table != tableOf(p.Mark) {
			return nil, fmt.Errorf("another disruption delays packets here already, by table %s."+
				" Find it with injector audit on the node; end it first, or request both faults in one disruption", table)
		}
	}
	return &queue{Point: p, queues: q, netns: netns}, nil
}

// tableOf names the table of the packet filter of an injection.
func tableOf(m attach.Mark) string { return m.Program + tableSuffix }

const tableSuffix = "_delay"

// delayTables lists the tables of Squall in a namespace.
func delayTables(netns string) ([]string, error) {
	tables, err := nfqueue.Tables(netns)
	return slices.DeleteFunc(tables, func(name string) bool {
		return !attach.IsProgram(name) || !strings.HasSuffix(name, tableSuffix)
	}), err
}

// plan decides which packets wait, and refuses impossible demands.
func (q *queue) plan(rules []classifier.Rule, level v1beta1.Level, links []attach.Link, someContainers bool) error {
	q.rules, q.loopback = classifier.ToQueue(rules), level == v1beta1.LevelPod
	q.Hooks = attach.Hooks(links, level, classifier.Directions(q.rules))
	switch {
	case classifier.Tracks(rules):
		return errors.New("connState cannot be combined with delay and bandwidthLimit: leave out connState, or ask for them in two disruptions")
	case someContainers && q.held.Delay > 0:
		return errors.New("the kernel has no netem, and a delay in user space cannot select processes. Leave out" +
			" spec.containers for pods without hostNetwork, or use a node with netem (CONFIG_NET_SCH_NETEM)")
	}
	return nil
}

// add makes the devices, then the filters that lead to them.
func (q *queue) add(cgroups *classifier.Cgroups) (err error) {
	q.cgroups = cgroups
	if q.held.Delay > 0 {
		q.delayer, err = nfqueue.Start(nfqueue.Plan{
			Netns: q.netns.Path, Table: tableOf(q.Mark), Rules: q.rules, Loopback: q.loopback,
			Delay: q.held.Delay, Jitter: q.held.Jitter,
		})
		if err != nil {
			return err
		}
	}
	if q.device == (queueing.Demand{}) {
		return nil
	}
	if q.counts, err = classifier.NewCounts(); err != nil {
		return err
	}
	q.Devices = map[classifier.Direction]int{}
	for _, direction := range classifier.Directions(q.rules) {
		device := queueing.Device{Netns: q.netns, Mark: q.Mark, Direction: direction, Demand: q.device}
		if q.Devices[direction], err = device.Make(q.Log); err != nil {
			return err
		}
	}
	if q.Programs, err = q.load(q.rules); err != nil {
		return err
	}
	q.attached, err = attach.Redirect(q.Point)
	return err
}

// load loads the selecting programs into the kernel. It attaches none.
func (q *queue) load(rules []classifier.Rule) (attach.Programs, error) {
	instructions := map[classifier.Direction]asm.Instructions{}
	for _, direction := range classifier.Directions(rules) {
		spec := classifier.Spec{Direction: direction, Rules: rules, Counts: q.counts, Selects: classifier.SelectOnLinks}
		if direction == classifier.Egress {
			spec.Cgroups = q.cgroups // an arriving packet has no socket yet
		}
		instructions[direction] = classifier.Program(spec)
	}
	return attach.Load(instructions, q.Mark)
}

// exchange selects packets by other rules.
func (q *queue) exchange(rules []classifier.Rule) error {
	if slices.Equal(rules, q.rules) {
		return nil
	}
	if q.delayer != nil {
		if err := q.delayer.Replace(rules); err != nil {
			return err
		}
	}
	if q.attached == nil {
		q.rules = rules
		return nil
	}
	fresh, err := q.load(rules)
	if err != nil {
		return err
	}
	if err := q.attached.Replace(fresh); err != nil {
		fresh.Close()
		return err
	}
	q.Programs.Close()
	q.Programs, q.rules = fresh, rules
	return nil
}

// remove leaves the devices, which are removed after the filters of other attempts.
func (q *queue) remove() error {
	var errs []error
	if q.delayer != nil {
		errs = append(errs, q.delayer.Close())
	}
	if q.attached != nil {
		errs = append(errs, q.attached.Detach())
	}
	q.Programs.Close()
	q.counts.Close()
	return errors.Join(errs...)
}

// removeAll removes everything of an injection in a namespace, whichever process added it.
// It removes the devices last, and none to which a filter leads.
func removeAll(netns string, m attach.Mark, log attach.ChangeLog) error {
	if err := attach.Remove(netns, m, log); err != nil {
		return err
	}
	return queueing.Remove(netns, m)
}

// probe tries everything that these queues need of the kernel.
func probe(wanted queues) error {
	return target.InNewNetns(func(path string) error {
		q := queue{
			Point:  attach.Point{Netns: path, Mark: attach.ProbeMark(), Log: &memory{}},
			queues: wanted, netns: target.Netns{Path: path}, loopback: true,
		}
		for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
			q.rules = append(q.rules, classifier.Rule{Match: classifier.Match{Direction: direction}, Effect: classifier.Effect{Queue: true}})
			q.Hooks = append(q.Hooks, attach.Hook{Index: 1, Name: "lo", Direction: direction})
		}
		return errors.Join(q.add(nil), q.remove())
	})
}

// refusedQueues returns the error with what the kernel lacks to delay packets.
func refusedQueues(t *target.Target, answer error) error {
	return fmt.Errorf("%s (kernel %s) cannot do what is asked for: %s", nodeOf(t), target.KernelRelease(), oneline.Join(answer))
}
