package network

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// Probe tries each mechanism in a network namespace of its own, which it throws
// away, and says which the kernel takes. If it takes none, the error is the one
// that an injection would meet. It needs neither target nor journal.
func (i *Injector) Probe() (string, error) {
	var works []string
	var errs []error
	err := inNewNetns(func(netns string) error {
		p := place{netns: netns, mark: mark{filterPrefix + "probe", programPrefix + "probe"}, journal: &memory{}}
		rules := []Rule{{Direction: Egress, Drop: 50}, {Direction: Ingress, Drop: 50}}
		for _, rule := range rules {
			p.hooks = append(p.hooks, Hook{Index: 1, Name: "lo", Direction: rule.Direction})
		}
		var err error
		if p.programs, err = load(rules, nil, p.mark); err != nil {
			return err
		}
		defer p.programs.close()
		for _, try := range i.mechanisms {
			attached, err := try(p)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			works = append(works, attached.name())
			errs = append(errs, attached.detach())
		}
		return nil
	})
	if err != nil || len(works) == 0 {
		return "", refused(i.target, append(errs, err)...)
	}
	return "network drop works by " + strings.Join(works, " and by "), nil
}

// refused says what the kernel lacks, and how it answered.
func refused(t *target.Target, answers ...error) error {
	node := "this node"
	if t != nil && t.Injection.Target.NodeName != "" {
		node = "node " + t.Injection.Target.NodeName
	}
	return fmt.Errorf("network drop needs to attach BPF programs to network links, by tcx (Linux 6.6) or by clsact and cls_bpf"+
		" (CONFIG_NET_SCH_INGRESS and CONFIG_NET_CLS_BPF, modules sch_ingress and cls_bpf), which %s (kernel %s) refuses: %w; nothing was changed",
		node, kernelRelease(), oneLine(answers))
}

// joined is several errors in one line: it ends up in a status.
type joined []error

// oneLine is nil if all errors are.
func oneLine(errs []error) error {
	kept := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	if len(kept) == 0 {
		return nil
	}
	return joined(kept)
}

// Error separates the errors by semicolons.
func (j joined) Error() string {
	var texts []string
	for _, err := range j {
		texts = append(texts, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return strings.Join(texts, "; ")
}

// Unwrap lets errors.Is look into each.
func (j joined) Unwrap() []error { return j }

func kernelRelease() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Release[:])
}

// inNewNetns runs f with the path of a network namespace that exists as long as
// f runs. F itself is not inside.
func inNewNetns(f func(path string) error) error {
	var namespace *os.File
	err := target.Do("/proc/thread-self/ns/net", func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		namespace, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return err
	}
	defer namespace.Close()
	return f(fmt.Sprintf("/proc/self/fd/%d", namespace.Fd()))
}

// memory is a journal for what is thrown away.
type memory []journal.Change

// Write keeps the change in memory.
func (m *memory) Write(change journal.Change) error { *m = append(*m, change); return nil }

// Changes lists what was written.
func (m *memory) Changes() []journal.Change { return *m }
