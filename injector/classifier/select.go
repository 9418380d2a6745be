//go:build linux

package classifier

import "github.com/cilium/ebpf/asm"

// Selection is where a program selects the packets that rules send through queues.
// What it selects has the effect Queue and no other.
type Selection int

const (
	// SelectNothing is for all other programs.
	SelectNothing Selection = iota
	// SelectOnLinks is for a filter of a link (cls_bpf): what leaves is tagged on
	// its way into the queue, and not selected again when it comes out.
	SelectOnLinks
	// SelectOnce is for where a packet comes by once, and nothing can be written
	// to it: a match of the packet filter (xt_bpf).
	SelectOnce
)

// Verdicts of a program that selects, as cls_bpf without direct action and xt_bpf
// take them.
const (
	verdictOther    = 0
	verdictSelected = -1
)

// queuedTag is what a packet carries that leaves through a queue, and so comes to
// the egress of its link twice. It is in the field tc_index, which DiffServ's
// queueing had and nothing uses since Linux 6.3.
const queuedTag = 0x5171

// ToQueue makes the rules of a program that selects from those of all effects,
// and Unqueued those of the programs that do everything else.
func ToQueue(rules []Rule) []Rule {
	return withEffects(rules, func(e Effect) Effect { return Effect{Queue: e.Queue} })
}

// Unqueued leaves out what only a program that selects looks at.
func Unqueued(rules []Rule) []Rule {
	return withEffects(rules, func(e Effect) Effect { e.Queue = false; return e })
}

func withEffects(rules []Rule, change func(Effect) Effect) []Rule {
	var changed []Rule
	for _, rule := range rules {
		rule.Effect = change(rule.Effect)
		changed = append(changed, rule)
	}
	return changed
}

// selectQueued ends a program for a packet that is to wait.
func selectQueued(s Spec) asm.Instructions {
	var program asm.Instructions
	if s.Selects == SelectOnLinks && s.Direction == Egress {
		program = tag(queuedTag)
	}
	return append(program, verdict(verdictSelected)...)
}

func tag(value int32) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(regScratch, value),
		asm.StoreMem(regPacket, contextTCIndex, regScratch, asm.Word),
	}
}

// passFromQueue lets pass what leaves and comes out of a queue: it has been
// judged. The filter that sent it there, the last of ours, takes the tag off.
func passFromQueue(s Spec) asm.Instructions {
	if s.AtSockets || s.Selects == SelectOnce || s.Direction != Egress {
		return nil
	}
	program := asm.Instructions{
		asm.LoadMem(regScratch, regPacket, contextTCIndex, asm.Word),
		asm.JNE.Imm(regScratch, queuedTag, "not-queued"),
	}
	if s.Selects == SelectOnLinks {
		program = append(program, tag(0)...)
	}
	return append(append(program, s.pass()...), hop("not-queued"))
}
