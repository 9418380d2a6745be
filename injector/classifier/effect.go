//go:build linux

package classifier

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// effects are the different ones of a program's rules, each once, but for the
// one that lets a packet pass.
type effects []Effect

// firstEffect is the number of the first effect, which is no family's.
const firstEffect = 8

// passing is the number of what lets a packet pass.
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

// dispatch does what the rules have decided. From here on nothing of the
// registers is needed but the context and the protocol.
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

// assemble draws for each share anew, so that they do not depend on each other.
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

// drawn jumps over what happens to a share of the packets: a number of 31 bits
// is drawn, and the share of all such numbers is its threshold.
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

// copyMark in the first of the context's words says that a packet is a copy; the
// second says whose. Nothing else looks there, and no packet arrives with it.
const copyMark = 0x53715561

// duplicate sends a copy along the packet's own way, to its own link: there it
// meets this program again, which knows it by its mark.
func duplicate(s Spec, name string) asm.Instructions {
	flags := int32(0)
	if s.Direction == Ingress {
		flags = 1 // BPF_F_INGRESS
	}
	return asm.Instructions{
		// A copy of somebody else's is not copied: two that copied each
		// other's would never end.
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

// passOwnCopies lets pass what this program has copied itself, and takes the
// mark off: beyond this link it is a packet like any other.
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
