//go:build linux

package classifier

import "github.com/cilium/ebpf/asm"

// Registers that hold the parsed packet while the rules use it. No helper is called after
// the parsing, so that even R0 to R5 keep their values.
const (
	regFamily     = asm.R0 // 4 or 6; once a rule has matched, the number of its effect
	regSourcePort = asm.R1 // noPort if the packet has none
	regHigh       = asm.R2 // remote IPv6 address, upper half
	regLow        = asm.R3 // lower half
	regMismatch   = asm.R4
	regScratch    = asm.R5
	regPacket     = asm.R6 // the context
	regAddress    = asm.R7 // remote IPv4 address; while IPv6 is parsed, the offset
	regProtocol   = asm.R8
	regPort       = asm.R9 // destination port, noPort if the packet has none
)

// noPort is larger than any port.
const noPort = 1 << 16

// The contents of the stack, as offsets from the frame pointer.
const (
	stackHeader = -40 // the fixed header of either family
	stackNext   = -48 // the header after it
	stackL4     = -56 // offset of the transport header from the IP header
	stackProbe  = -72 // possible first bytes of the IP header
	stackByte   = -80
	stackState  = -88 // the State of the packet's connection
	stackPort   = -96 // the source port while its register is needed
	stackValue  = -104
	stackFlow   = stackValue - flowBytes
	stackSaved  = stackFlow - savedBytes

	stackDecided = stackSaved - 8 // the number of the effect, while the request is checked
	stackMethod  = stackDecided - methodBytes
	stackPath    = stackMethod - pathBytes
)

// Offsets in struct __sk_buff.
const (
	contextLength   = 0
	contextProtocol = 16
	contextIfindex  = 40
	contextTCIndex  = 44
	contextCB       = 48 // five fields for programs only; a copy has those of its packet
	contextGSOSize  = 176
)

// fromNetworkHeader makes a helper count from the IP header, wherever that is: a tunnel's
// packets have no Ethernet header before it (BPF_HDR_START_NET).
const fromNetworkHeader = 1

const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd

	ipv6HopByHop    = 0
	ipv6Routing     = 43
	ipv6Fragment    = 44
	ipv6Destination = 60
	icmpv6          = 58

	// maxExtensions is how many IPv6 extension headers the parser skips.
	maxExtensions = 6
)

// parse fills the registers and continues with the rules.
func parse(s Spec) asm.Instructions {
	program := onlyCgroups(s.Cgroups)
	program = append(program,
		asm.LoadMem(asm.R0, regPacket, contextProtocol, asm.Word),
		asm.HostTo(asm.BE, asm.R0, asm.Half),
		asm.JEq.Imm(asm.R0, etherIPv4, "ipv4"),
		asm.JEq.Imm(asm.R0, etherIPv6, "ipv6"),
		hop("pass"))
	program = append(program, s.pass()...)
	program = append(program, parseIPv4(s)...)
	program = append(program, parseIPv6(s)...)
	return append(program, hop("rules"))
}

// onlyCgroups passes every packet whose socket is outside cgroups and the cgroups below
// them.
func onlyCgroups(cgroups *Cgroups) asm.Instructions {
	if cgroups == nil {
		return nil
	}
	var program asm.Instructions
	for at := range cgroups.count {
		program = append(program,
			asm.Mov.Reg(asm.R1, regPacket),
			asm.LoadMapPtr(asm.R2, cgroups.array.FD()),
			asm.Mov.Imm(asm.R3, int32(at)),
			asm.FnSkbUnderCgroup.Call(),
			asm.JEq.Imm(asm.R0, 1, "meant"))
	}
	return append(program, asm.Ja.Label("pass"), hop("meant"))
}

func parseIPv4(s Spec) asm.Instructions {
	address := int16(stackHeader + 16)
	if s.Direction == Ingress {
		address = stackHeader + 12
	}
	program := asm.Instructions{hop("ipv4"), asm.Mov.Imm(asm.R2, 0)}
	program = append(program, loadBytes(stackHeader, 20, "pass")...)
	program = append(program,
		asm.LoadMem(regAddress, asm.RFP, address, asm.Word),
		asm.HostTo(asm.BE, regAddress, asm.Word),
		asm.LoadMem(regProtocol, asm.RFP, stackHeader+9, asm.Byte),

		// Only the first fragment has the ports.
		asm.Mov.Imm(asm.R2, 20),
		asm.StoreMem(asm.RFP, stackL4, asm.R2, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, stackHeader+6, asm.Half),
		asm.HostTo(asm.BE, asm.R2, asm.Half),
		asm.And.Imm(asm.R2, 0x1fff),
		asm.JNE.Imm(asm.R2, 0, "ipv4-no-ports"),

		asm.LoadMem(asm.R2, asm.RFP, stackHeader, asm.Byte),
		asm.And.Imm(asm.R2, 0x0f),
		asm.LSh.Imm(asm.R2, 2),
		asm.StoreMem(asm.RFP, stackL4, asm.R2, asm.DWord))
	program = append(program, loadPorts("ipv4")...)
	program = append(program, track(s, "ipv4", 12, 4)...)
	return append(program, asm.Mov.Imm(regFamily, 4), asm.Ja.Label("rules"))
}

func parseIPv6(s Spec) asm.Instructions {
	address := int16(stackHeader + 24)
	if s.Direction == Ingress {
		address = stackHeader + 8
	}
	program := asm.Instructions{hop("ipv6"), asm.Mov.Imm(asm.R2, 0)}
	program = append(program, loadBytes(stackHeader, 40, "pass")...)
	program = append(program,
		asm.LoadMem(regProtocol, asm.RFP, stackHeader+6, asm.Byte),
		asm.Mov.Imm(regAddress, 40),
		asm.StoreMem(asm.RFP, stackL4, regAddress, asm.DWord))
	program = append(program, skipExtensions()...)
	program = append(program, asm.StoreMem(asm.RFP, stackL4, regAddress, asm.DWord))
	program = append(program, passNeighbourDiscovery()...)
	program = append(program, asm.Mov.Reg(asm.R2, regAddress))
	program = append(program, loadPorts("ipv6")...)
	program = append(program, track(s, "ipv6", 8, 16)...)
	return append(program,
		asm.LoadMem(regHigh, asm.RFP, address, asm.DWord),
		asm.HostTo(asm.BE, regHigh, asm.DWord),
		asm.LoadMem(regLow, asm.RFP, address+8, asm.DWord),
		asm.HostTo(asm.BE, regLow, asm.DWord),
		asm.Mov.Imm(regFamily, 6))
}

// skipExtensions moves the offset behind the extension headers and leaves the
// protocol that follows them.
func skipExtensions() asm.Instructions {
	var program asm.Instructions
	for i := range maxExtensions {
		turn := string(rune('a' + i))
		program = append(program,
			asm.JEq.Imm(regProtocol, ipv6HopByHop, "option-"+turn),
			asm.JEq.Imm(regProtocol, ipv6Routing, "option-"+turn),
			asm.JEq.Imm(regProtocol, ipv6Destination, "option-"+turn),
			asm.JNE.Imm(regProtocol, ipv6Fragment, "extensions-end"),
			asm.Mov.Reg(asm.R2, regAddress))
		program = append(program, loadBytes(stackNext, 4, "ipv6-no-ports")...)
		program = append(program,
			asm.LoadMem(regProtocol, asm.RFP, stackNext, asm.Byte),
			asm.Add.Imm(regAddress, 8),
			asm.LoadMem(asm.R1, asm.RFP, stackNext+2, asm.Half),
			asm.HostTo(asm.BE, asm.R1, asm.Half),
			asm.And.Imm(asm.R1, 0xfff8),
			asm.JNE.Imm(asm.R1, 0, "ipv6-no-ports"),
			asm.Ja.Label("turned-"+turn),

			asm.Mov.Reg(asm.R2, regAddress).WithSymbol("option-"+turn))
		program = append(program, loadBytes(stackNext, 2, "ipv6-no-ports")...)
		program = append(program,
			asm.LoadMem(regProtocol, asm.RFP, stackNext, asm.Byte),
			asm.LoadMem(asm.R1, asm.RFP, stackNext+1, asm.Byte),
			asm.Add.Imm(asm.R1, 1),
			asm.LSh.Imm(asm.R1, 3),
			asm.Add.Reg(regAddress, asm.R1),
			hop("turned-"+turn))
	}
	return append(program, hop("extensions-end"))
}

// passNeighbourDiscovery passes the ICMPv6 that a link needs to work at all: neighbour and
// router discovery (133 to 137), and the multicast listener reports without which a switch
// does not forward them (130 to 132, 143).
func passNeighbourDiscovery() asm.Instructions {
	program := asm.Instructions{
		asm.JNE.Imm(regProtocol, icmpv6, "not-discovery"),
		asm.Mov.Reg(asm.R2, regAddress),
	}
	program = append(program, loadBytes(stackNext, 1, "not-discovery")...)
	return append(program,
		asm.LoadMem(asm.R1, asm.RFP, stackNext, asm.Byte),
		asm.JEq.Imm(asm.R1, 143, "pass"),
		asm.JLT.Imm(asm.R1, 130, "not-discovery"),
		asm.JLE.Imm(asm.R1, 137, "pass"),
		hop("not-discovery"))
}

// loadPorts reads both ports at the offset in R2, if the protocol has any.
func loadPorts(family string) asm.Instructions {
	program := asm.Instructions{
		asm.JEq.Imm(regProtocol, int32(TCP), family+"-ports"),
		asm.JNE.Imm(regProtocol, int32(UDP), family+"-no-ports"),
		hop(family + "-ports"),
	}
	program = append(program, loadBytes(stackNext, 4, family+"-no-ports")...)
	return append(program,
		asm.LoadMem(regSourcePort, asm.RFP, stackNext, asm.Half),
		asm.HostTo(asm.BE, regSourcePort, asm.Half),
		asm.LoadMem(regPort, asm.RFP, stackNext+2, asm.Half),
		asm.HostTo(asm.BE, regPort, asm.Half),
		asm.Ja.Label(family+"-parsed"),
		hop(family+"-no-ports"),
		asm.Mov.Imm(regSourcePort, noPort),
		asm.Mov.Imm(regPort, noPort),
		hop(family+"-parsed"))
}

// loadBytes copies length bytes at the offset in R2, counted from the IP header, to the
// stack. It jumps to otherwise if the packet is shorter.
func loadBytes(to int32, length int32, otherwise string) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Reg(asm.R1, regPacket),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, to),
		asm.Mov.Imm(asm.R4, length),
		asm.Mov.Imm(asm.R5, fromNetworkHeader),
		asm.FnSkbLoadBytesRelative.Call(),
		asm.JNE.Imm(asm.R0, 0, otherwise),
	}
}
