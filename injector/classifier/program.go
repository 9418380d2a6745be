//go:build linux

// Package classifier assembles the BPF program that judges the packets of one direction by
// a list of rules. It promises that every list of rules within the kernel's limits becomes
// a program that the verifier accepts. The program changes no packet except those of a rule
// that corrupts.
package classifier

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Verdicts of a program on a link. The passing one hands the packet on to the next program,
// so that foreign filters see the same packets as before.
const (
	verdictNext = -1
	verdictDrop = 2
)

// Verdicts of a program of a cgroup.
const (
	cgroupPass = 1
	cgroupDrop = 0
)

// chunkRules is how many rules one jump skips: offsets of jumps have 16 bits, and no rule
// takes more than 32 instructions, its part of the search included.
const chunkRules = 512

// Spec is the input of a program.
type Spec struct {
	Direction Direction
	// Rules may contain rules of the other direction, which are ignored.
	Rules []Rule
	// Cgroups, if not nil, limit the program to the packets of their sockets.
	Cgroups *Cgroups
	// Request, if not nil, limits effects to packets that also begin such a request.
	Request *Request
	// Flows is the map of flows, if the rules depend on the state of connections. The programs
	// of both directions share it.
	Flows *ebpf.Map
	// AtSockets is true for a program of a cgroup, which sees packets where sockets send and
	// receive them. It can only drop: the kernel refuses one with rules that corrupt or
	// duplicate.
	AtSockets bool
	// Owner distinguishes the copies that this program makes from those of others, 31 bits.
	Owner uint32
	// Counts, if not nil, counts the packets that matched and their effects.
	Counts *Counts
	// Selects makes a program that only selects the packets that rules send through queues.
	Selects Selection
}

// pass ends the program for a packet that continues.
func (s Spec) pass() asm.Instructions {
	if s.Selects != SelectNothing {
		return verdict(verdictOther)
	}
	if s.AtSockets {
		return verdict(cgroupPass)
	}
	return verdict(verdictNext)
}

// drop ends it for one that does not.
func (s Spec) drop() asm.Instructions {
	if s.AtSockets {
		return verdict(cgroupDrop)
	}
	return verdict(verdictDrop)
}

// Program assembles the classifier of one direction: the first rule that matches decides
// about a packet. With cgroups, packets of other sockets pass. Packets that cannot be
// parsed pass, and so do ARP, everything that is not IP, and IPv6 neighbour discovery.
func Program(s Spec) asm.Instructions {
	var ipv4, ipv6 []Rule
	var all effects
	for _, rule := range s.Rules {
		if rule.Direction != s.Direction {
			continue
		}
		if !rule.Remote.IsValid() || rule.Remote.Addr().Is4() {
			ipv4 = append(ipv4, rule)
		}
		if !rule.Remote.IsValid() || rule.Remote.Addr().Is6() {
			ipv6 = append(ipv6, rule)
		}
		all.add(rule.Effect)
	}
	program := asm.Instructions{asm.Mov.Reg(regPacket, asm.R1)}
	program = append(program, passFromQueue(s)...)
	if all.duplicate() {
		program = append(program, passOwnCopies(s)...)
	}
	program = append(program, parse(s)...)
	program = append(program, chunks(4, ipv4, all)...)
	program = append(program, chunks(6, ipv6, all)...)
	return append(program, all.dispatch(s)...)
}

// chunks assembles the rules of one family. A packet of the other family, or one with a
// decision, skips them chunk by chunk, because one jump over all would not reach.
func chunks(family int32, rules []Rule, all effects) asm.Instructions {
	var program asm.Instructions
	for at, chunk := range split(searchable(rules)) {
		after := fmt.Sprintf("after-%d-%d", family, at)
		labels := 0
		s := searcher{
			test: func(rules []Rule) asm.Instructions { return decide(rules, all, after) },
			label: func() string {
				labels++
				return fmt.Sprintf("search-%d-%d-%d", family, at, labels)
			},
		}
		program = append(program, asm.JNE.Imm(regFamily, family, after))
		for _, run := range chunk {
			program = append(program, s.search(run, keysOf[family])...)
		}
		program = append(program, hop(after))
	}
	return program
}

// decide tests rules one after the other, and jumps away with the number of the first
// matching rule's effect.
func decide(rules []Rule, all effects, away string) asm.Instructions {
	var program asm.Instructions
	for _, rule := range rules {
		decided := asm.Instructions{asm.Mov.Imm(regFamily, all.number(rule.Effect)), asm.Ja.Label(away)}
		if tests := mismatch(rule); len(tests) > 0 {
			program = append(append(program, tests...), over(asm.JNE, regMismatch, 0, len(decided)))
		}
		program = append(program, decided...)
	}
	return program
}

// mismatch collects in one register how the packet differs from the rule, so that a rule
// has one jump. The verifier follows every jump both ways and keeps at most 8192 of them.
// With several jumps for each it refuses a few hundred rules.
func mismatch(rule Rule) asm.Instructions {
	var program asm.Instructions
	differ := func(register asm.Register, want uint64, bits, width int) {
		if bits <= 0 {
			return
		}
		into := asm.Register(regScratch)
		if len(program) == 0 {
			into = regMismatch
		}
		program = append(program, xor(into, register, want, width)...)
		switch {
		case bits < width && width == 32:
			program = append(program, asm.RSh.Imm32(into, int32(32-bits)))
		case bits < width:
			program = append(program, asm.RSh.Imm(into, int32(64-bits)))
		}
		if into != regMismatch {
			program = append(program, asm.Or.Reg(regMismatch, into))
		}
	}
	if rule.Remote.IsValid() && rule.Remote.Addr().Is4() {
		bytes := rule.Remote.Addr().As4()
		differ(regAddress, uint64(binary.BigEndian.Uint32(bytes[:])), rule.Remote.Bits(), 32)
	} else if rule.Remote.IsValid() {
		bytes := rule.Remote.Addr().As16()
		differ(regHigh, binary.BigEndian.Uint64(bytes[:8]), min(rule.Remote.Bits(), 64), 64)
		differ(regLow, binary.BigEndian.Uint64(bytes[8:]), rule.Remote.Bits()-64, 64)
	}
	if rule.Port != 0 {
		differ(regPort, uint64(rule.Port), 32, 32)
	}
	if rule.SourcePort != 0 {
		differ(regSourcePort, uint64(rule.SourcePort), 32, 32)
	}
	if rule.Protocol != Any {
		differ(regProtocol, uint64(rule.Protocol), 32, 32)
	}
	if rule.State != AnyState {
		if len(program) == 0 {
			program = append(program, asm.Mov.Imm(regMismatch, 0))
		}
		program = append(program,
			asm.LoadMem(regScratch, asm.RFP, stackState, asm.DWord),
			asm.Xor.Imm(regScratch, int32(rule.State)),
			asm.Or.Reg(regMismatch, regScratch))
	}
	return program
}

// xor leaves in a register how another one differs from want.
func xor(into, register asm.Register, want uint64, width int) asm.Instructions {
	exclusive := asm.Xor.Reg(into, register)
	if width == 32 {
		exclusive = asm.Xor.Reg32(into, register)
	}
	return append(constant(into, want, width), exclusive)
}

// over jumps over so many instructions if the comparison holds.
func over(op asm.JumpOp, register asm.Register, value int32, count int) asm.Instruction {
	jump := op.Imm(register, value, "")
	jump.Offset = int16(count)
	return jump
}

func verdict(value int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, value), asm.Return()}
}

// hop does nothing and carries a label to jump to.
func hop(label string) asm.Instruction {
	return asm.Mov.Imm(regScratch, 0).WithSymbol(label)
}
