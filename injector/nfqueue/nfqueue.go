//go:build linux

// Package nfqueue delays packets in user space, for kernels without a queueing discipline
// for it. A table of the packet filter hands the packets that programs select to this
// process (NFQUEUE), which returns each after its delay. It promises that nothing outlives
// the process: the kernel deletes the table with the socket that owns it, and packets
// without a listener pass at once.
package nfqueue

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
)

// Plan selects packets of one network namespace, and sets their delay.
type Plan struct {
	// Netns is the path of the namespace.
	Netns string
	// Table is the name of the table, without spaces.
	Table string
	// Rules select the packets by the effect Queue, and have no other.
	Rules []classifier.Rule
	// Loopback delays packets that leave by a loopback link, too.
	Loopback bool
	// A packet waits Delay, plus or minus up to Jitter, every value equally likely: packets
	// can overtake each other.
	Delay, Jitter time.Duration
}

// Delayer holds the packets of a plan until it is closed or the process ends.
type Delayer struct {
	plan  Plan
	table *table
	queue *queue
}

// Start puts a plan into force, or changes nothing.
func Start(p Plan) (*Delayer, error) {
	namespace, err := target.OpenNetns(p.Netns)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	d := &Delayer{plan: p}
	if d.queue, err = listen(int(namespace.Fd()), p.Delay, p.Jitter); err != nil {
		return nil, err
	}
	if d.table, err = newTable(int(namespace.Fd()), p, d.queue.number); err != nil {
		d.queue.close()
		return nil, err
	}
	if err := d.Replace(p.Rules); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Replace selects by other rules from now on. Waiting packets continue to wait.
func (d *Delayer) Replace(rules []classifier.Rule) error {
	programs, err := load(rules)
	if err != nil {
		return err
	}
	// The kernel keeps the programs that a rule uses.
	defer func() {
		for _, program := range programs {
			program.Close()
		}
	}()
	return d.table.setRules(programs)
}

// Taken counts the packets that were held so far.
func (d *Delayer) Taken() uint64 { return d.queue.taken.Load() }

// Close passes all packets again, first the waiting ones.
func (d *Delayer) Close() error {
	// The kernel drops waiting packets when a chain is removed, so the rules are removed
	// first.
	err := d.table.setRules(nil)
	d.queue.flush()
	err = errors.Join(err, d.table.close())
	d.queue.close()
	return err
}

func load(rules []classifier.Rule) (map[classifier.Direction]*ebpf.Program, error) {
	programs := map[classifier.Direction]*ebpf.Program{}
	for _, direction := range classifier.Directions(rules) {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name: "squall_delay", Type: ebpf.SocketFilter, License: "MIT",
			Instructions: classifier.Program(classifier.Spec{Direction: direction, Rules: rules, Selects: classifier.SelectOnce}),
		})
		if err != nil {
			for _, loaded := range programs {
				loaded.Close()
			}
			return nil, fmt.Errorf("load the program of %s: %w", direction, err)
		}
		programs[direction] = program
	}
	return programs, nil
}

// Tables lists the names of all tables of the packet filter in a namespace for both IPv4
// and IPv6. A kernel without a packet filter has none. It returns target.ErrGone, wrapped,
// if the namespace does not exist.
func Tables(netns string) ([]string, error) {
	namespace, err := target.OpenNetns(netns)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	conn, err := dial(int(namespace.Fd()))
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answers, err := conn.Execute(message(unix.NFNL_SUBSYS_NFTABLES, unix.NFT_MSG_GETTABLE, netlink.Dump, unix.NFPROTO_INET, 0, nil))
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tables of the packet filter: %w", err)
	}
	var names []string
	for _, answer := range answers {
		err := eachAttribute(answer, func(attributes *netlink.AttributeDecoder) {
			if attributes.Type() == unix.NFTA_TABLE_NAME {
				names = append(names, attributes.String())
			}
		})
		if err != nil {
			return nil, fmt.Errorf("list tables of the packet filter: %w", err)
		}
	}
	return names, nil
}

// dial opens a socket of the packet filter in a network namespace.
func dial(netns int) (*netlink.Conn, error) {
	if err := target.CheckNetfilter(); err != nil {
		return nil, err
	}
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: netns})
	if err != nil {
		return nil, fmt.Errorf("open netfilter: %w", err)
	}
	return conn, nil
}
