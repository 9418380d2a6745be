//go:build linux

package classifier

import (
	"encoding/binary"

	"github.com/cilium/ebpf/asm"
)

// Request is an unencrypted HTTP/1 request, whose request line must begin a TCP segment.
type Request struct {
	// Methods are upper case; none means any of the nine.
	Methods []string
	// Paths are prefixes, up to 90 bytes each; none, or "/", means any path.
	Paths []string
}

// httpMethods are the methods of RFC 9110, and PATCH.
var httpMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE"}

const (
	// methodBytes holds the longest method and the blank behind it, pathBytes the longest
	// prefix.
	methodBytes = 8
	pathBytes   = 96
)

// regPayload is the offset of the TCP payload from the packet's first byte, then that of
// the path. The payload may be outside the part with the headers, so another helper loads
// it, which counts from the packet's first byte.
const regPayload = asm.R7

// onlyRequests passes packets that the rules have decided about, unless they begin with the
// request.
func onlyRequests(s Spec) asm.Instructions {
	if s.Request == nil {
		return nil
	}
	program := asm.Instructions{
		asm.JLT.Imm(regFamily, firstEffect, "no-request"),
		asm.JNE.Imm(regProtocol, int32(TCP), "no-request"),
		asm.JEq.Imm(regPort, noPort, "no-request"),
		asm.StoreMem(asm.RFP, stackDecided, regFamily, asm.DWord),
		asm.LoadMem(asm.R2, asm.RFP, stackL4, asm.DWord),
		asm.Add.Imm(asm.R2, 12),
	}
	program = append(program, loadBytes(stackByte, 1, "no-request")...)
	program = append(program, findNetworkHeader("request")...)
	program = append(program,
		asm.StoreMem(asm.RFP, stackProbe, regOffset, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, stackL4, asm.DWord),
		asm.Add.Reg(regPayload, asm.R1),
		asm.LoadMem(asm.R1, asm.RFP, stackByte, asm.Byte),
		asm.RSh.Imm(asm.R1, 4),
		asm.LSh.Imm(asm.R1, 2),
		asm.Add.Reg(regPayload, asm.R1),
		asm.Mov.Reg(asm.R2, regPayload))
	program = append(program, moveBytes(asm.FnSkbLoadBytes, stackMethod, methodBytes, "no-request")...)
	program = append(program, matchMethod(s.Request.Methods)...)
	program = append(program, matchPath(s.Request.Paths)...)
	program = append(program, hop("request-discard"), hop("no-request"))
	program = append(program, s.pass()...)
	return append(program, hop("request"), asm.LoadMem(regFamily, asm.RFP, stackDecided, asm.DWord))
}

// matchMethod leaves the offset of the path in regPayload.
func matchMethod(methods []string) asm.Instructions {
	if len(methods) == 0 {
		methods = httpMethods
	}
	var program asm.Instructions
	for _, method := range methods {
		next := "not-" + method
		program = append(program, asm.Mov.Imm(regMismatch, 0))
		program = append(program, differText(stackMethod, method+" ")...)
		program = append(program,
			asm.JNE.Imm(regMismatch, 0, next),
			asm.Add.Imm(regPayload, int32(len(method)+1)),
			asm.Ja.Label("path"),
			hop(next))
	}
	return append(program, asm.Ja.Label("no-request"), hop("path"))
}

// matchPath loads as much of the path as exists.
func matchPath(paths []string) asm.Instructions {
	if len(paths) == 0 || len(paths) == 1 && paths[0] == "/" {
		return asm.Instructions{asm.Ja.Label("request")}
	}
	program := asm.Instructions{asm.Mov.Imm(asm.R1, 0)}
	for at := 0; at < pathBytes; at += 8 {
		program = append(program, asm.StoreMem(asm.RFP, int16(stackPath+at), asm.R1, asm.DWord))
	}
	program = append(program, ipLength(asm.R9, "request-length")...)
	program = append(program,
		asm.LoadMem(asm.R1, asm.RFP, stackProbe, asm.DWord),
		asm.Add.Reg(asm.R9, asm.R1),
		asm.Sub.Reg(asm.R9, regPayload),
		asm.JSLT.Imm(asm.R9, 1, "no-request"),
		asm.JLE.Imm(asm.R9, pathBytes, "short-path"),
		asm.Mov.Imm(asm.R9, pathBytes),
		hop("short-path"),
		asm.Mov.Reg(asm.R1, regPacket),
		asm.Mov.Reg(asm.R2, regPayload),
		asm.Mov.Reg(asm.R3, asm.RFP),
		asm.Add.Imm(asm.R3, stackPath),
		asm.Mov.Reg(asm.R4, asm.R9),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "no-request"))
	for _, path := range paths {
		program = append(program, asm.Mov.Imm(regMismatch, 0))
		program = append(program, differText(stackPath, path)...)
		program = append(program, asm.JEq.Imm(regMismatch, 0, "request"))
	}
	return program
}

// differText collects in regMismatch how the stack differs from a text.
func differText(stack int, text string) asm.Instructions {
	var program asm.Instructions
	for at := 0; at < len(text); at += 8 {
		var want, mask [8]byte
		length := copy(want[:], text[at:])
		for i := range length {
			mask[i] = 0xff
		}
		program = append(program, asm.LoadMem(regScratch, asm.RFP, int16(stack+at), asm.DWord))
		if length < 8 {
			program = append(program,
				asm.LoadImm(asm.R3, int64(binary.NativeEndian.Uint64(mask[:])), asm.DWord),
				asm.And.Reg(regScratch, asm.R3))
		}
		program = append(program,
			asm.LoadImm(asm.R3, int64(binary.NativeEndian.Uint64(want[:])), asm.DWord),
			asm.Xor.Reg(regScratch, asm.R3),
			asm.Or.Reg(regMismatch, regScratch))
	}
	return program
}

// ipLength reads the length of the IP packet, from the IP header on, into a register.
func ipLength(register asm.Register, label string) asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R3, asm.RFP, stackHeader, asm.Byte),
		asm.RSh.Imm(asm.R3, 4),
		asm.LoadMem(register, asm.RFP, stackHeader+2, asm.Half),
		asm.HostTo(asm.BE, register, asm.Half),
		asm.JEq.Imm(asm.R3, 4, label),
		asm.LoadMem(register, asm.RFP, stackHeader+4, asm.Half),
		asm.HostTo(asm.BE, register, asm.Half),
		asm.Add.Imm(register, 40),
		hop(label),
	}
}
