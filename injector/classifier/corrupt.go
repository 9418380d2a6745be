//go:build linux

package classifier

import "github.com/cilium/ebpf/asm"

const (
	// savedBytes are cut out of a packet and restored so that the kernel forgets its checksum.
	// They exceed the headers before a transport header.
	savedBytes = 128
	// growBelow is the length below which a packet is made longer for that.
	growBelow = 256

	adjustMAC    = 1 // BPF_ADJ_ROOM_MAC
	recomputeSum = 1 // BPF_F_RECOMPUTE_CSUM
)

// Registers while a packet is corrupted. The protocol keeps its own.
const (
	regOffset = asm.R7 // first the offset of the IP header, then the byte to change
	regLength = asm.R9 // first the packet's length, then the end of its IP packet
)

// corrupt flips a random bit behind the transport header, or in the last byte if nothing
// follows the header. It drops packets that it cannot corrupt, as their receiver would:
// those with several segments, whose checksums do not exist yet, and short ones that are
// encapsulated in the kernel.
func corrupt(s Spec, name string) asm.Instructions {
	program := asm.Instructions{
		asm.LoadMem(asm.R1, regPacket, contextGSOSize, asm.Word),
		asm.JNE.Imm(asm.R1, 0, name+"-discard"),
	}
	program = append(program, findNetworkHeader(name)...)
	program = append(program, forgetChecksum(name)...)
	program = append(program, chooseByte(name)...)
	program = append(program, flipBit(name)...)
	program = append(program, asm.Ja.Label(name+"-corrupted"), hop(name+"-discard"))
	program = append(program, s.drop()...)
	return append(program, hop(name+"-corrupted"))
}

// findNetworkHeader finds the IP header: helpers that change packets count from the first
// byte. On most links that is an Ethernet header, on some with a VLAN in it, and on tunnels
// the IP header.
func findNetworkHeader(name string) asm.Instructions {
	var program asm.Instructions
	for at, offset := range []int32{14, 0, 18} {
		other := name + "-header-" + string(rune('a'+at))
		program = append(program,
			asm.Mov.Imm(regOffset, offset),
			asm.Mov.Reg(asm.R2, regOffset))
		program = append(program, moveBytes(asm.FnSkbLoadBytes, stackProbe, 16, other)...)
		program = append(program,
			asm.LoadMem(asm.R1, asm.RFP, stackProbe, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.DWord),
			asm.JNE.Reg(asm.R1, asm.R2, other),
			asm.LoadMem(asm.R1, asm.RFP, stackProbe+8, asm.DWord),
			asm.LoadMem(asm.R2, asm.RFP, stackHeader+8, asm.DWord),
			asm.JEq.Reg(asm.R1, asm.R2, name+"-header"),
			hop(other))
	}
	return append(program, asm.Ja.Label(name+"-discard"), hop(name+"-header"))
}

// forgetChecksum makes the kernel treat the packet as one whose checksum is in the packet
// and unchecked. Otherwise a link that computes checksums would compute a matching one, and
// a receiver on the same node would check none: the damage would reach an application.
// There is no helper for it. But a packet that is cut beyond the transport header loses the
// kernel's state of its checksum, and does not regain it with its first bytes.
func forgetChecksum(name string) asm.Instructions {
	program := asm.Instructions{
		asm.LoadMem(regLength, regPacket, contextLength, asm.Word),
		asm.JGT.Imm(regLength, growBelow, name+"-long"),
		asm.Mov.Imm(asm.R2, growBelow),
	}
	program = append(program, call(asm.FnSkbChangeTail, 0, name+"-discard")...)
	program = append(program,
		hop(name+"-long"),
		asm.Mov.Reg(asm.R2, regOffset))
	program = append(program, moveBytes(asm.FnSkbLoadBytes, stackSaved, savedBytes, name+"-discard")...)
	for _, by := range []int32{-savedBytes, savedBytes} {
		program = append(program, asm.Mov.Imm(asm.R2, by))
		program = append(program, call(asm.FnSkbAdjustRoom, adjustMAC, name+"-discard")...)
	}
	program = append(program, asm.Mov.Reg(asm.R2, regOffset))
	program = append(program, moveBytes(asm.FnSkbStoreBytes, stackSaved, savedBytes, name+"-discard")...)
	program = append(program,
		asm.JGT.Imm(regLength, growBelow, name+"-whole"),
		asm.Mov.Reg(asm.R2, regLength))
	program = append(program, call(asm.FnSkbChangeTail, 0, name+"-discard")...)
	return append(program, hop(name+"-whole"))
}

// chooseByte leaves in regOffset the byte to change: any between the end of the transport
// header and that of the IP packet, which padding may follow.
func chooseByte(name string) asm.Instructions {
	program := ipLength(regLength, name+"-length")
	program = append(program,
		asm.Add.Reg(regLength, regOffset),
		asm.LoadMem(asm.R1, asm.RFP, stackL4, asm.DWord),
		asm.Add.Reg(regOffset, asm.R1),
		asm.Add.Imm(regOffset, 8), // the headers of UDP and ICMP
		asm.JNE.Imm(regProtocol, int32(TCP), name+"-payload"),
		asm.Mov.Reg(asm.R2, regOffset),
		asm.Add.Imm(asm.R2, 4)) // the 13th byte of a TCP header holds its length
	program = append(program, moveBytes(asm.FnSkbLoadBytes, stackByte, 1, name+"-discard")...)
	return append(program,
		asm.LoadMem(asm.R1, asm.RFP, stackByte, asm.Byte),
		asm.RSh.Imm(asm.R1, 4),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(regOffset, asm.R1),
		asm.Sub.Imm(regOffset, 8),
		hop(name+"-payload"),

		asm.JGT.Reg(regLength, regOffset, name+"-some"),
		asm.Mov.Reg(regOffset, regLength),
		asm.Sub.Imm(regOffset, 1),
		hop(name+"-some"),
		asm.Sub.Reg(regLength, regOffset),
		asm.FnGetPrandomU32.Call(),
		asm.Mod.Reg(asm.R0, regLength),
		asm.Add.Reg(regOffset, asm.R0))
}

func flipBit(name string) asm.Instructions {
	program := asm.Instructions{asm.Mov.Reg(asm.R2, regOffset)}
	program = append(program, moveBytes(asm.FnSkbLoadBytes, stackByte, 1, name+"-discard")...)
	program = append(program,
		asm.FnGetPrandomU32.Call(),
		asm.And.Imm(asm.R0, 7),
		asm.Mov.Imm(asm.R1, 1),
		asm.LSh.Reg(asm.R1, asm.R0),
		asm.LoadMem(asm.R2, asm.RFP, stackByte, asm.Byte),
		asm.Xor.Reg(asm.R1, asm.R2),
		asm.StoreMem(asm.RFP, stackByte, asm.R1, asm.Byte),
		asm.Mov.Reg(asm.R2, regOffset))
	return append(program, moveBytes(asm.FnSkbStoreBytes, stackByte, 1, name+"-discard")...)
}

// moveBytes copies length bytes between the stack and the packet, at the offset in R2
// from its first byte, or jumps to otherwise.
func moveBytes(helper asm.BuiltinFunc, stack, length int32, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regPacket),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stack),
		asm.Mov.Imm(asm.R4, length),
		asm.Mov.Imm(asm.R5, recomputeSum), // loading takes no flags
		helper.Call(),
		asm.JNE.Imm(asm.R0, 0, otherwise),
	}
}

// call calls a helper about the packet with the argument in R2 and another, or jumps to
// otherwise.
func call(helper asm.BuiltinFunc, third int32, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regPacket),
		asm.Mov.Imm(asm.R3, third),
		asm.Mov.Imm(asm.R4, 0),
		helper.Call(),
		asm.JNE.Imm(asm.R0, 0, otherwise),
	}
}
