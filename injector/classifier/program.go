// Package classifier assembles the BPF program that judges the packets of one
// direction by a list of rules. It promises that every list of rules that fits
// the kernel's limits becomes a program that the verifier accepts, and that the
// program changes no packet.
package classifier

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/cilium/ebpf/asm"
)

// Verdicts of a classifier. The one for passing hands the packet on to
// whatever else is attached, so that foreign filters see what they saw before.
const (
	verdictNext = -1
	verdictDrop = 2
)

// chunkRules is how many rules are skipped by one jump: offsets of jumps have
// 16 bits, and no rule takes more than 32 instructions.
const chunkRules = 512

// Program assembles the classifier of one direction: it returns the verdict of
// the first of rules that matches. With cgroups, packets whose socket is in
// none of them pass. Whatever cannot be parsed passes, and so do ARP, all that
// is not IP, and IPv6 neighbour discovery.
func Program(direction Direction, rules []Rule, cgroups []Cgroup) asm.Instructions {
	program := parse(direction, cgroups)
	var ipv4, ipv6 []Rule
	for _, rule := range rules {
		if rule.Direction != direction {
			continue
		}
		if !rule.Remote.IsValid() || rule.Remote.Addr().Is4() {
			ipv4 = append(ipv4, rule)
		}
		if !rule.Remote.IsValid() || rule.Remote.Addr().Is6() {
			ipv6 = append(ipv6, rule)
		}
	}
	program = append(program, chunks(4, ipv4)...)
	program = append(program, chunks(6, ipv6)...)
	return append(program, verdict(verdictNext)...)
}

// chunks assembles the rules of one family. A packet of the other family hops
// over them chunk by chunk, because one jump over all would not reach.
func chunks(family int32, rules []Rule) asm.Instructions {
	var program asm.Instructions
	for start := 0; start < len(rules); start += chunkRules {
		end := min(start+chunkRules, len(rules))
		after := fmt.Sprintf("after-%d-%d", family, start)
		program = append(program, asm.JNE.Imm(regFamily, family, after))
		for i, rule := range rules[start:end] {
			next := fmt.Sprintf("next-%d-%d", family, start+i)
			tests := mismatch(rule)
			if len(tests) == 0 {
				// Nothing gets past this rule, and the verifier refuses code
				// that cannot be reached.
				return append(append(program, share(rule.Drop)...), hop(after))
			}
			program = append(program, asm.Mov.Imm(regMismatch, 0))
			program = append(program, tests...)
			program = append(program, asm.JNE.Imm(regMismatch, 0, next))
			program = append(program, share(rule.Drop)...)
			program = append(program, hop(next))
		}
		program = append(program, hop(after))
	}
	return program
}

// mismatch collects in one register how the packet differs from the rule, so
// that a rule has one jump: the verifier follows every jump both ways, keeps at
// most 8192 of them in mind, and gives up at a few hundred rules of several.
func mismatch(rule Rule) asm.Instructions {
	var program asm.Instructions
	if rule.Remote.IsValid() {
		program = append(program, differAddress(rule.Remote)...)
	}
	if rule.Port != 0 {
		program = append(program, differ(regPort, uint64(rule.Port), 64)...)
	}
	if rule.SourcePort != 0 {
		program = append(program, differ(regSourcePort, uint64(rule.SourcePort), 64)...)
	}
	if rule.Protocol != Any {
		program = append(program, differ(regProtocol, uint64(rule.Protocol), 64)...)
	}
	return program
}

func differAddress(remote netip.Prefix) asm.Instructions {
	if remote.Addr().Is4() {
		bytes := remote.Addr().As4()
		return differ(regAddress, uint64(binary.BigEndian.Uint32(bytes[:]))<<32, remote.Bits())
	}
	bytes := remote.Addr().As16()
	high, low := binary.BigEndian.Uint64(bytes[:8]), binary.BigEndian.Uint64(bytes[8:])
	program := differ(regHigh, high, min(remote.Bits(), 64))
	return append(program, differ(regLow, low, max(remote.Bits()-64, 0))...)
}

// differ compares the upper bits of a register.
func differ(register asm.Register, want uint64, bits int) asm.Instructions {
	if bits == 0 {
		return nil
	}
	program := asm.Instructions{
		asm.LoadImm(regScratch, int64(want), asm.DWord),
		asm.Xor.Reg(regScratch, register),
	}
	if bits < 64 {
		program = append(program, asm.RSh.Imm(regScratch, int32(64-bits)))
	}
	return append(program, asm.Or.Reg(regMismatch, regScratch))
}

// share drops the packet when the number drawn for it, of 31 bits, is below
// the same share of all such numbers: at 0 none is, at 100 all are.
func share(drop Percent) asm.Instructions {
	if drop <= 0 {
		return verdict(verdictNext)
	}
	if drop >= 100 {
		return verdict(verdictDrop)
	}
	threshold := int32(int64(drop) << 31 / 100)
	return asm.Instructions{
		asm.LoadMem(regScratch, asm.RFP, stackDrawn, asm.DWord),
		asm.Mov.Imm(asm.R0, verdictNext),
		over(asm.JGE, regScratch, threshold),
		asm.Mov.Imm(asm.R0, verdictDrop),
		asm.Return(),
	}
}

// over jumps over one instruction if the comparison holds.
func over(op asm.JumpOp, register asm.Register, value int32) asm.Instruction {
	jump := op.Imm(register, value, "")
	jump.Offset = 1
	return jump
}

func verdict(value int32) asm.Instructions {
	return asm.Instructions{asm.Mov.Imm(asm.R0, value), asm.Return()}
}

// hop does nothing and carries a label to jump to.
func hop(label string) asm.Instruction {
	return asm.Mov.Imm(regScratch, 0).WithSymbol(label)
}
