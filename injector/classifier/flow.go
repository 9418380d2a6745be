//go:build linux

package classifier

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

const (
	// flowBytes is the size of a flow's key: both addresses, the local one
	// first, 16 bytes each; both ports, 4 bytes each; family and protocol.
	flowBytes = 48
	// maxFlows is how many flows are kept. Beyond that the least recently used one is
	// forgotten, and so New again.
	maxFlows = 1 << 14
)

// NewFlows makes the map of flows of one network namespace. Close it once the programs that
// use it are loaded.
func NewFlows() (*ebpf.Map, error) {
	flows, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "squall_flows", Type: ebpf.LRUHash, KeySize: flowBytes, ValueSize: 8, MaxEntries: maxFlows,
	})
	if err != nil {
		return nil, fmt.Errorf("make a map for flows: %w", err)
	}
	return flows, nil
}

// sides are the bits in a flow's value that record who has sent.
var sides = map[Direction]int32{Egress: 1, Ingress: 2}

// track finds the state of the packet's connection, and records the sender. The addresses
// are at source of the header, each of this many bytes. All registers of the rules that are
// set so far survive.
func track(s Spec, family string, source, bytes int32) asm.Instructions {
	if s.Flows == nil {
		return nil
	}
	program := asm.Instructions{
		asm.StoreMem(asm.RFP, stackPort, regSourcePort, asm.DWord),
		asm.Mov.Imm(asm.R1, int32(Established)),
		asm.StoreMem(asm.RFP, stackState, asm.R1, asm.DWord),
		asm.JNE.Imm(regProtocol, int32(TCP), family+"-flow"),
	}
	program = append(program, trackTCP(family)...)
	program = append(program, hop(family+"-flow"))
	program = append(program, flowKey(s.Direction, source, bytes)...)
	program = append(program,
		asm.LoadMapPtr(asm.R1, s.Flows.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackFlow),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, family+"-unseen"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R1),
		asm.Or.Imm(asm.R2, sides[s.Direction]),
		asm.StoreMem(asm.R0, 0, asm.R2, asm.DWord),
		asm.And.Imm(asm.R1, sides[Egress]+sides[Ingress]-sides[s.Direction]),
		asm.JNE.Imm(asm.R1, 0, family+"-tracked"),
		asm.Ja.Label(family+"-new"),

		asm.Mov.Imm(asm.R1, sides[s.Direction]).WithSymbol(family+"-unseen"),
		asm.StoreMem(asm.RFP, stackValue, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.Flows.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackFlow),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackValue),
		asm.Mov.Imm(asm.R4, 0), // BPF_ANY
		asm.FnMapUpdateElem.Call(),

		asm.Mov.Imm(asm.R1, int32(New)).WithSymbol(family+"-new"),
		asm.StoreMem(asm.RFP, stackState, asm.R1, asm.DWord))
	return append(program, asm.LoadMem(regSourcePort, asm.RFP, stackPort, asm.DWord).WithSymbol(family+"-tracked"))
}

// trackTCP uses only the flags. A packet without them, such as a later fragment, is
// Established.
func trackTCP(family string) asm.Instructions {
	const syn, ack = 0x02, 0x10
	program := asm.Instructions{
		asm.LoadMem(asm.R2, asm.RFP, stackL4, asm.DWord),
		asm.Add.Imm(asm.R2, 13),
		asm.JEq.Imm(regPort, noPort, family+"-tracked"),
	}
	program = append(program, loadBytes(stackByte, 1, family+"-tracked")...)
	return append(program,
		asm.LoadMem(asm.R1, asm.RFP, stackByte, asm.Byte),
		asm.And.Imm(asm.R1, syn|ack),
		asm.JNE.Imm(asm.R1, syn, family+"-tracked"),
		asm.Ja.Label(family+"-new"))
}

// flowKey writes the key, which is the same for both directions of a flow.
func flowKey(direction Direction, source, bytes int32) asm.Instructions {
	local, remote := stackFlow, stackFlow+16
	localPort, remotePort := stackFlow+32, stackFlow+36
	if direction == Ingress {
		local, remote = remote, local
		localPort, remotePort = remotePort, localPort
	}
	program := asm.Instructions{asm.Mov.Imm(asm.R1, 0)}
	for at := 0; at < flowBytes; at += 8 {
		program = append(program, asm.StoreMem(asm.RFP, int16(stackFlow+at), asm.R1, asm.DWord))
	}
	for at := int32(0); at < bytes; at += 4 {
		program = append(program,
			asm.LoadMem(asm.R1, asm.RFP, int16(stackHeader+source+at), asm.Word),
			asm.StoreMem(asm.RFP, int16(int32(local)+at), asm.R1, asm.Word),
			asm.LoadMem(asm.R1, asm.RFP, int16(stackHeader+source+bytes+at), asm.Word),
			asm.StoreMem(asm.RFP, int16(int32(remote)+at), asm.R1, asm.Word))
	}
	return append(program,
		asm.LoadMem(asm.R1, asm.RFP, stackPort, asm.DWord),
		asm.StoreMem(asm.RFP, int16(localPort), asm.R1, asm.Word),
		asm.StoreMem(asm.RFP, int16(remotePort), regPort, asm.Word),
		asm.Mov.Reg(asm.R1, regProtocol),
		asm.Add.Imm(asm.R1, bytes<<8), // the length of addresses identifies the family
		asm.StoreMem(asm.RFP, stackFlow+40, asm.R1, asm.DWord))
}
