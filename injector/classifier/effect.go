//go:build linux

package classifier

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// effects are the distinct effects of a program's rules, except the one that passes a
// packet.
type effects []Effect

// firstEffect is the number of the first effect, which differs from the numbers of
// families.
const firstEffect = 8

// passing is the number of the effect that passes a packet.
const passing = firstEffect - 1

func (e *effects) add(effect Effect) {
	if effect != (Effect{}) && !slices.Contains(*e, effect) {
		*e = append(*e, effect)
	}
}

func (e effects) number(effect Effect) int32 {
	if at := slices.Index(e, effect); at >= 0 {
		return firstEffect + int32(at)
	}
	return passing
}

func (e effects) duplicate() bool {
	return slices.ContainsFunc(e, func(effect Effect) bool { return effect.Duplicate > 0 })
}

// dispatch applies the effect that the rules have chosen. From here on only the registers
// of the context and the protocol are needed.
func (e effects) dispatch(s Spec) asm.Instructions {
	program := onlyRequests(s)
	for _, effect := range e {
		number := e.number(effect)
		program = append(program, asm.JEq.Imm(regFamily, number, fmt.Sprintf("effect-%d", number)))
	}
	program = append(program, s.pass()...)
	for _, effect := range e {
		name := fmt.Sprintf("effect-%d", e.number(effect))
		program = append(program, hop(name))
		program = append(program, effect.assemble(s, name)...)
	}
	return program
}

// assemble draws separately for each share, so that they are independent.
func (e Effect) assemble(s Spec, name string) asm.Instructions {
	taken := func(what asm.Instructions) asm.Instructions { return append(s.Counts.count(countTaken), what...) }
	program := s.Counts.count(countMatched)
	if s.Selects != SelectNothing {
		return append(program, taken(selectQueued(s))...)
	}
	if e.Drop >= 100 {
		return append(program, taken(s.drop())...)
	}
	program = append(program, drawn(e.Drop, name+"-not-dropped", taken(s.drop()))...)
	program = append(program, drawn(e.Corrupt, name+"-not-corrupted", taken(corrupt(s, name)))...)
	program = append(program, drawn(e.Duplicate, name+"-not-duplicated", taken(duplicate(s, name)))...)
	return append(program, s.pass()...)
}

// drawn jumps over the instructions except for a share of the packets. It draws a number of
// 31 bits; the share of all such numbers is its threshold.
func drawn(share Percent, otherwise string, what asm.Instructions) asm.Instructions {
	if share <= 0 {
		return nil
	}
	threshold := int32(min(int64(share)<<31/100, 1<<31-1))
	program := asm.Instructions{
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 1<<31-1),
		asm.JGE.Imm(asm.R0, threshold, otherwise),
	}
	if share >= 100 {
		program = nil
		otherwise += "-never" // nothing jumps there
	}
	return append(append(program, what...), hop(otherwise))
}

// copyMark in the first field of cb marks a packet as a copy; the second has the
// owner. Other programs do not use them, and no packet arrives with it.
const copyMark = 0x53715561

// duplicate sends a copy along the packet's own path, to its own link. There this program
// judges it again, and recognises the mark.
func duplicate(s Spec, name string) asm.Instructions {
	flags := int32(0)
	if s.Direction == Ingress {
		flags = 1 // BPF_F_INGRESS
	}
	return asm.Instructions{
		// A foreign copy is not copied: two programs that copied each other's copies would never
		// end.
		asm.LoadMem(asm.R1, regPacket, contextCB, asm.Word),
		asm.JEq.Imm(asm.R1, copyMark, name+"-is-copy"),
		asm.Mov.Imm(asm.R1, copyMark),
		asm.StoreMem(regPacket, contextCB, asm.R1, asm.Word),
		asm.Mov.Imm(asm.R1, ownerWord(s.Owner)),
		asm.StoreMem(regPacket, contextCB+4, asm.R1, asm.Word),
		asm.Mov.Reg(asm.R1, regPacket),
		asm.LoadMem(asm.R2, regPacket, contextIfindex, asm.Word),
		asm.Mov.Imm(asm.R3, flags),
		asm.FnCloneRedirect.Call(),
		asm.Mov.Imm(asm.R1, 0),
		asm.StoreMem(regPacket, contextCB, asm.R1, asm.Word),
		hop(name + "-is-copy"),
	}
}

func ownerWord(owner uint32) int32 { return int32(owner & (1<<31 - 1)) }

// passOwnCopies passes this program's copies, and removes the mark: beyond this link a copy
// is a packet like any other.
func passOwnCopies(s Spec) asm.Instructions {
	program := asm.Instructions{
		asm.LoadMem(asm.R2, regPacket, contextCB, asm.Word),
		asm.JNE.Imm(asm.R2, copyMark, "no-copy"),
		asm.LoadMem(asm.R2, regPacket, contextCB+4, asm.Word),
		asm.JNE.Imm(asm.R2, ownerWord(s.Owner), "no-copy"),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(regPacket, contextCB, asm.R2, asm.Word),
	}
	return append(append(program, s.pass()...), hop("no-copy"))
}
