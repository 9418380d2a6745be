//go:build linux

package network

import (
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/oneline"
	"github.com/squall-chaos/squall/injector/queueing"
	"github.com/squall-chaos/squall/injector/target"
)

// Probe tries each mechanism in a network namespace of its own, which it discards, and
// returns those that the kernel accepts. If it accepts none, the error is that of an
// injection. Probe needs neither target nor journal.
func (i *Injector) Probe() (string, error) {
	var works []string
	var errs []error
	err := target.InNewNetns(func(netns string) error {
		n := namespace{Point: attach.Point{Netns: netns, Mark: attach.ProbeMark(), Log: &memory{}}}
		var rules []classifier.Rule
		for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
			rules = append(rules, classifier.Rule{Match: classifier.Match{Direction: direction}, Effect: classifier.Effect{Drop: 50}})
			n.Hooks = append(n.Hooks, attach.Hook{Index: 1, Name: "lo", Direction: direction})
		}
		var err error
		if n.Programs, err = n.load(rules); err != nil {
			return err
		}
		defer n.Programs.Close()
		for _, try := range i.mechanisms {
			attached, err := try(n.Point)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			works = append(works, attached.Name())
			errs = append(errs, attached.Detach())
		}
		return nil
	})
	if err != nil || len(works) == 0 {
		return "", refused(i.target, append(errs, err)...)
	}
	text := "network disruption works by " + strings.Join(works, " and by ") + lacks()
	demand := demandOf(i.params)
	if demand != (queueing.Demand{}) {
		queues, err := chooseQueues(demand)
		if err != nil {
			return "", refusedQueues(i.target, err)
		}
		return text + ", " + queues.String(), nil
	}
	for _, all := range []queueing.Demand{{Delay: time.Second}, {Rate: 1 << 20}} {
		queues, err := chooseQueues(all)
		if err != nil {
			text += "; no " + oneline.Join(err).Error()
			continue
		}
		text += "; " + queues.String()
	}
	return text, nil
}

// lacks lists the effects that this kernel refuses. It attaches nothing.
func lacks() string {
	var text string
	for _, effect := range []struct {
		name string
		classifier.Effect
	}{{"corrupt", classifier.Effect{Corrupt: 50}}, {"duplicate", classifier.Effect{Duplicate: 50}}} {
		n := namespace{Point: attach.Point{Mark: attach.ProbeMark()}}
		programs, err := n.load([]classifier.Rule{{Match: classifier.Match{Direction: classifier.Egress}, Effect: effect.Effect}})
		programs.Close()
		if err != nil {
			text += fmt.Sprintf("; it cannot %s: %s", effect.name, oneline.Join(err))
		}
	}
	return text
}

// refused returns the error with what the kernel lacks, and its answers.
func refused(t *target.Target, answers ...error) error {
	return fmt.Errorf("network disruption attaches BPF programs to network links by tcx (Linux 6.6) or cls_bpf"+
		" (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF), which %s (kernel %s) refuses: %w; nothing was changed",
		nodeOf(t), target.KernelRelease(), oneline.Join(answers...))
}

func nodeOf(t *target.Target) string {
	if t == nil || t.Injection.Target.NodeName == "" {
		return "this node"
	}
	return "node " + t.Injection.Target.NodeName
}

// memory is a journal for objects that are discarded.
type memory []journal.Change

// Write keeps the change in memory.
func (m *memory) Write(change journal.Change) error { *m = append(*m, change); return nil }

// Changes lists what was written.
func (m *memory) Changes() []journal.Change { return *m }
