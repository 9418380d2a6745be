//go:build linux

// Package network disrupts the packets of a target. BPF programs on the target's network
// links drop, corrupt or duplicate a share of the packets that its rules match. Queues
// beside the links delay packets. The package promises to change no foreign qdisc, filter
// or program. A target stays reachable for its node, and Clean leaves the links as they
// were. Where the kernel can, the programs end with the injector, also when it is killed.
package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/network/rule"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	// refreshEvery is the interval at which names are resolved again.
	refreshEvery = time.Minute
	// lookEvery is the interval at which the addresses of services are read again.
	lookEvery = time.Second
	// surveyEvery is the interval at which the routes are read again.
	surveyEvery = 5 * time.Second
	// retryEvery is the pause after a failed search for links, or a failed change to new
	// addresses.
	retryEvery = 10 * time.Second
)

// Injector disrupts the packets of one target.
type Injector struct {
	params  v1beta1.NetworkDisruption
	target  *target.Target
	journal *journal.Journal

	// Tests change refreshEvery, lookEvery, surveyEvery, retryEvery and mechanisms.
	refreshEvery, lookEvery, surveyEvery, retryEvery time.Duration
	mechanisms                                       []attach.Mechanism

	namespaces []namespace
	queues     queues // the mechanisms that delay packets
	hostsFile  hostsFile
	facts      facts
	// mutex guards facts, and the contents of namespaces, while the upkeep runs.
	mutex      sync.Mutex
	stopUpkeep context.CancelFunc
	upkeep     sync.WaitGroup
}

// facts are the inputs of rules that change while the rules are in force.
type facts struct {
	addresses map[rule.Name][]netip.Addr // of names
	hosts     []v1beta1.NetworkHost      // the hosts of services and cloud
	// controlPlane has the peers of the kubelet's connections if a node is the target.
	controlPlane []netip.AddrPort
}

// namespace is one network namespace of the target and what was attached there.
type namespace struct {
	attach.Point

	rules []classifier.Rule
	// own are the addresses of a pod in its node's network. Packets by links without them
	// belong to others. Empty for any other target.
	own      []netip.Addr
	request  *classifier.Request // nil if any packet is meant
	dirs     []string            // of the cgroups that are meant; none: all packets are
	cgroups  *classifier.Cgroups // the same, as kernel objects
	flows    *ebpf.Map           // nil if no rule asks for the state of connections
	counts   *classifier.Counts  // of the actions of its programs
	attached attach.Attachment
	sockets  sockets
	queue    *queue // nil if no packet waits
}

// New makes an injector. It does nothing yet.
func New(params v1beta1.NetworkDisruption, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{
		params: params, target: t, journal: j,
		refreshEvery: refreshEvery, lookEvery: lookEvery, surveyEvery: surveyEvery, retryEvery: retryEvery,
		mechanisms: []attach.Mechanism{attach.TCX, attach.Clsact},
	}
}

// Inject resolves the names, decides the rules and puts them into force. If it fails, it
// changes nothing, and the error includes that. Until Clean it resolves the names again
// every minute, reads the connections of a node's kubelet, follows services and disrupts
// new links.
func (i *Injector) Inject(ctx context.Context) error {
	namespaces, err := i.planWithQueues(ctx)
	if err != nil {
		return fmt.Errorf("network disruption: %w; nothing was changed", err)
	}
	for _, n := range namespaces {
		if err := i.attach(n); err != nil {
			return errors.Join(err, i.Clean(ctx))
		}
	}
	i.startUpkeep()
	return nil
}

// Clean removes what Inject added, in this process or, by its mark and the journal, in one
// that has died. It is idempotent and continues after an error. For a target that is gone
// it returns nil.
func (i *Injector) Clean(context.Context) error {
	if i.stopUpkeep != nil {
		i.stopUpkeep()
		i.upkeep.Wait()
	}
	var errs []error
	for _, n := range i.namespaces {
		errs = append(errs, n.attached.Detach(), n.sockets.links.Detach())
		if n.queue != nil {
			errs = append(errs, n.queue.remove())
		}
		n.close()
	}
	i.namespaces = nil
	netnses, err := i.target.Netnses()
	if err != nil {
		errs = append(errs, err)
	}
	for _, netns := range netnses {
		errs = append(errs, removeAll(netns.Path, attach.MarkOf(i.target.Injection), i.journal))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, target.ErrGone) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean network disruption: %w", err)
	}
	return nil
}

func (i *Injector) planWithQueues(ctx context.Context) ([]namespace, error) {
	queues, err := chooseQueues(demandOf(i.params))
	if err != nil {
		return nil, refusedQueues(i.target, err)
	}
	// A target that is gone is reported as gone, not as a name that does not resolve.
	if _, err := i.target.Netnses(); err != nil {
		return nil, err
	}
	i.hostsFile.path = i.target.Injection.ResolvedHosts
	hosts, seen, err := i.hostsFile.hosts(i.params)
	if err != nil {
		return nil, err
	}
	addresses, err := i.resolve(ctx)
	if err != nil {
		return nil, err
	}
	controlPlane, err := i.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	i.queues, i.hostsFile.seen = queues, seen
	i.facts = facts{addresses: addresses, hosts: hosts, controlPlane: controlPlane}
	return i.plan(queues, i.facts)
}

// plan decides the rules and changes nothing.
func (i *Injector) plan(queues queues, known facts) ([]namespace, error) {
	netnses, err := i.target.Netnses()
	if err != nil {
		return nil, err
	}
	var namespaces []namespace
	for _, netns := range netnses {
		n := namespace{Point: attach.Point{Netns: netns.Path, ID: netns.NetnsID, Mark: attach.MarkOf(i.target.Injection), Log: i.journal}}
		if n.queue, err = queues.in(netns, n.Point); err != nil {
			return nil, err
		}
		if err := i.planNamespace(&n, known); err != nil {
			return nil, err
		}
		namespaces = append(namespaces, n)
	}
	return namespaces, nil
}

func (i *Injector) planNamespace(n *namespace, known facts) error {
	c, err := attach.Open(n.Netns)
	if err != nil {
		return err
	}
	defer c.Close()
	site, err := survey(i.target, c, n.ID)
	if err != nil {
		return err
	}
	site.Resolved, site.ResolvedHosts, site.ControlPlane = known.addresses, known.hosts, known.controlPlane
	if http := i.params.HTTP; http != nil {
		if n.queue != nil {
			return errors.New("http cannot be combined with delay or bandwidthLimit, which would disrupt other packets, too; leave one out")
		}
		n.request = &classifier.Request{Methods: http.Methods, Paths: http.Paths}
	}
	rules, err := rule.Plan(i.params, site)
	if err != nil {
		return err
	}
	if site.Level == v1beta1.LevelPod {
		rules = append(controlConnection(), rules...)
	}
	n.rules = classifier.Unqueued(rules)
	if site.Level == v1beta1.LevelPod && site.NodeNetwork {
		if n.own, err = parseAddresses(slices.Concat(i.target.Injection.Target.PodIPs, i.target.Injection.Target.NodeIPs)); err != nil {
			return err
		}
	}
	if site.Level == v1beta1.LevelPod && (site.SomeContainers || site.NodeNetwork) {
		if n.dirs, err = cgroupsOf(i.target); err != nil {
			return err
		}
	}
	links, err := c.Links()
	if err != nil {
		return err
	}
	if n.Hooks, err = n.hooks(c, links, site.Level); err != nil {
		return err
	}
	if n.queue != nil {
		err = n.queue.plan(rules, site.Level, links, len(n.dirs) > 0)
	}
	return err
}

// hooks lists where the programs of the namespace belong now.
func (n *namespace) hooks(c attach.Conn, links []attach.Link, level v1beta1.Level) ([]attach.Hook, error) {
	all := attach.Hooks(links, level, n.directions(n.rules))
	if len(n.own) == 0 {
		return all, nil
	}
	carried, err := c.Addresses()
	if err != nil {
		return nil, err
	}
	return attach.IngressAt(all, links, carried, n.own), nil
}

// controlConnection returns the rules for packets between another injector and an application
// of the target.
func controlConnection() []classifier.Rule {
	var rules []classifier.Rule
	for _, loopback := range target.Loopback {
		m := classifier.Match{Direction: classifier.Egress, Remote: loopback, Protocol: classifier.TCP}
		to, from := m, m
		from.SourcePort, to.Port = target.ControlConnectionPort, target.ControlConnectionPort
		rules = append(rules, classifier.Rule{Match: from}, classifier.Rule{Match: to})
	}
	return rules
}

// attach loads the programs of a namespace and attaches them by the first mechanism that
// the kernel accepts. Only a try shows whether it does.
func (i *Injector) attach(n namespace) error {
	if err := n.prepare(); err != nil {
		n.close()
		return refused(i.target, err)
	}
	// The queues are added first, so that packets are judged before they wait.
	if n.queue != nil {
		if err := n.queue.add(n.cgroups); err != nil {
			n.close()
			return errors.Join(err, n.queue.remove())
		}
	}
	var errs []error
	for _, try := range i.mechanisms {
		attached, err := try(n.Point)
		if err == nil {
			n.attached = attached
			// Clean also removes what is attached in part.
			err := n.sockets.attach(n.dirs)
			i.namespaces = append(i.namespaces, n)
			return err
		}
		errs = append(errs, err)
	}
	n.close()
	if n.queue != nil {
		errs = append(errs, n.queue.remove())
	}
	return refused(i.target, errs...)
}

// prepare loads into the kernel what is attached afterwards.
func (n *namespace) prepare() (err error) {
	if n.counts, err = classifier.NewCounts(); err != nil {
		return err
	}
	if classifier.Tracks(n.rules) {
		if n.flows, err = classifier.NewFlows(); err != nil {
			return err
		}
	}
	if len(n.dirs) > 0 {
		if n.cgroups, err = classifier.OpenCgroups(n.dirs); err != nil {
			return err
		}
	}
	if n.Programs, err = n.load(n.rules); err != nil {
		return err
	}
	if n.sockets.program, err = n.loadAtSockets(n.rules); err != nil {
		return err
	}
	return nil
}

// close releases what the kernel keeps until it is detached.
func (n namespace) close() {
	n.Programs.Close()
	n.cgroups.Close()
	n.counts.Close()
	if n.flows != nil {
		n.flows.Close()
	}
	if n.sockets.program != nil {
		n.sockets.program.Close()
	}
}

// load loads a program for each direction of the rules that links judge. It attaches none.
func (n namespace) load(rules []classifier.Rule) (attach.Programs, error) {
	instructions := map[classifier.Direction]asm.Instructions{}
	for _, direction := range n.directions(rules) {
		instructions[direction] = classifier.Program(n.spec(direction, rules))
	}
	return attach.Load(instructions, n.Mark)
}

func (n namespace) spec(direction classifier.Direction, rules []classifier.Rule) classifier.Spec {
	spec := classifier.Spec{Direction: direction, Rules: rules, Request: n.request, Flows: n.flows, Counts: n.counts, Owner: n.Mark.Number()}
	if direction == classifier.Egress {
		spec.Cgroups = n.cgroups // an arriving packet has no socket yet
	}
	return spec
}
