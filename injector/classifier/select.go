//go:build linux

package classifier

import "github.com/cilium/ebpf/asm"

// Selection is the place at which a program selects the packets that rules send through
// queues. A selected packet has the effect Queue and no other.
type Selection int

const (
	// SelectNothing is for all other programs.
	SelectNothing Selection = iota
	// SelectOnLinks is for a filter of a link (cls_bpf). A leaving packet is tagged on its way
	// into the queue, and not selected again after it.
	SelectOnLinks
	// SelectOnce is for a match of the packet filter (xt_bpf), which sees a packet once and
	// cannot write to it.
	SelectOnce
)

// Verdicts of a selecting program, for cls_bpf without direct action and for xt_bpf.
const (
	verdictOther    = 0
	verdictSelected = -1
)

// queuedTag marks a packet that leaves through a queue, and so passes the egress of its
// link twice. It is in the field tc_index, of DiffServ's queueing, which nothing uses since
// Linux 6.3.
const queuedTag = 0x5171

// ToQueue makes the rules of a selecting program from those of all effects, and Unqueued
// those of the other programs.
func ToQueue(rules []Rule) []Rule {
	return withEffects(rules, func(e Effect) Effect { return Effect{Queue: e.Queue} })
}

// Unqueued omits the effects that only a selecting program uses.
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

// selectQueued ends a program for a packet that must wait.
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

// passFromQueue passes leaving packets that come out of a queue: they have been judged. The
// filter that sent them there, the last of ours, removes the tag.
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
