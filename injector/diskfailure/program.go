//go:build linux

package diskfailure

import (
	"encoding/binary"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// judge is the task of a program at a hook. The process that opens runs it, for each open
// of the node.
type judge struct {
	layout    layout
	namespace uint32   // the number of the target's mount namespace
	prefixes  []string // below which opens fail, as the target sees them
	errno     unix.Errno
	percent   int
	// devices are the numbers of the filesystems on which opens may fail.
	devices []uint32
}

// The maps of a program hold the devices, room for a path, and counts.
const (
	devicesMap = "squall_devices"
	roomMap    = "squall_path"
	countsMap  = "squall_denied"

	roomSize   = 4096 // the longest path, PATH_MAX
	countsSize = 16
)

// maps are those of the program.
func (j judge) maps() map[string]*ebpf.MapSpec {
	devices := &ebpf.MapSpec{Name: devicesMap, Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: uint32(max(len(j.devices), 1))}
	for _, device := range j.devices {
		devices.Contents = append(devices.Contents, ebpf.MapKV{Key: device, Value: uint8(1)})
	}
	return map[string]*ebpf.MapSpec{
		devicesMap: devices,
		roomMap:    {Name: roomMap, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: roomSize, MaxEntries: 1},
		countsMap:  {Name: countsMap, Type: ebpf.Array, KeySize: 4, ValueSize: countsSize, MaxEntries: 1},
	}
}

// The offsets of counts.
const (
	countAsked  = 0 // matching opens
	countDenied = 8
)

// modeNested is FMODE_NOACCOUNT: a filesystem opens a file of its own because one of its
// files is opened. The program ran for that one before.
const modeNested = 1 << 29

const (
	regFile   = asm.R6
	regCounts = asm.R7
	regPath   = asm.R8
	regBelow  = asm.R9 // 1 once the path is below one of the prefixes
	regDiffer = asm.R1
	regWord   = asm.R2
	regMask   = asm.R3
)

// stackKey is the offset of map keys on the stack.
const stackKey = -4

// program assembles the program. The cheap checks come first: most opens of a node are of
// other processes.
func (j judge) program() asm.Instructions {
	program := asm.Instructions{asm.LoadMem(regFile, asm.R1, 0, asm.DWord)}
	program = append(program, j.passNested()...)
	program = append(program, j.passOthers()...)
	program = append(program, j.passOtherDevices()...)
	program = append(program, j.readPath()...)
	program = append(program,
		asm.Ja.Label("compare"),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("pass"),
		asm.Return(),
		asm.Mov.Imm(regBelow, 0).WithSymbol("compare"),
	)
	for _, prefix := range j.prefixes {
		program = append(program, compare(prefix)...)
	}
	return append(program, j.deny()...)
}

// pass jumps to the end that lets an open continue.
const pass = "pass"

func (j judge) passNested() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, regFile, j.layout.fileMode, asm.Word),
		asm.And.Imm(asm.R1, modeNested),
		asm.JNE.Imm(asm.R1, 0, pass),
	}
}

// passOthers passes opens of processes in other mount namespaces.
func (j judge) passOthers() asm.Instructions {
	return asm.Instructions{
		asm.FnGetCurrentTaskBtf.Call(),
		asm.LoadMem(asm.R1, asm.R0, j.layout.taskNamespaces, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, j.layout.namespacesMount, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, j.layout.mountNumber, asm.Word),
		asm.Mov.Imm32(asm.R2, int32(j.namespace)),
		asm.JNE.Reg(asm.R1, asm.R2, pass),
	}
}

func (j judge) passOtherDevices() asm.Instructions {
	return asm.Instructions{
		asm.LoadMem(asm.R1, regFile, j.layout.fileInode, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, j.layout.inodeSuper, asm.DWord),
		asm.LoadMem(asm.R1, asm.R1, j.layout.superDevice, asm.Word),
		asm.StoreMem(asm.RFP, stackKey, asm.R1, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference(devicesMap),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, pass),
	}
}

// readPath has the kernel write the path as the opening process sees it, from its root,
// into the processor's own room. The kernel never starts a program again on a processor
// that is still running it.
func (j judge) readPath() asm.Instructions {
	return asm.Instructions{
		asm.StoreImm(asm.RFP, stackKey, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, 0).WithReference(roomMap),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, pass), // never happens, but the verifier cannot know
		asm.Mov.Reg(regPath, asm.R0),
		asm.Mov.Reg(asm.R1, regFile),
		asm.Add.Imm(asm.R1, int32(j.layout.filePath)),
		asm.Mov.Reg(asm.R2, regPath),
		asm.Mov.Imm(asm.R3, roomSize),
		asm.FnDPath.Call(),
		asm.JSLE.Imm(asm.R0, 0, pass), // it is too long, or has none
	}
}

// compare checks whether the path begins with a prefix. It gathers the differences in one
// register, so that there is one jump and the verifier has two branches to follow.
func compare(prefix string) asm.Instructions {
	var program asm.Instructions
	program = append(program, asm.Mov.Imm(regDiffer, 0))
	for at := 0; at < len(prefix); at += 8 {
		var want, mask [8]byte
		for n := range copy(want[:], prefix[at:]) {
			mask[n] = 0xff
		}
		program = append(program,
			asm.LoadMem(regWord, regPath, int16(at), asm.DWord),
			asm.LoadImm(regMask, number(want), asm.DWord),
			asm.Xor.Reg(regWord, regMask))
		if len(prefix)-at < 8 {
			program = append(program, asm.LoadImm(regMask, number(mask), asm.DWord), asm.And.Reg(regWord, regMask))
		}
		program = append(program, asm.Or.Reg(regDiffer, regWord))
	}
	differs := asm.JNE.Imm(regDiffer, 0, "")
	differs.Offset = 1
	return append(program, differs, asm.Mov.Imm(regBelow, 1))
}

// number returns eight bytes as this processor reads them.
func number(bytes [8]byte) int64 { return int64(binary.NativeEndian.Uint64(bytes[:])) }

// deny passes the same opens as type share, and fails the others.
func (j judge) deny() asm.Instructions {
	ask := asm.FetchAdd.Mem(regCounts, asm.R1, asm.DWord, countAsked)
	ask.Constant = int64(asm.FetchAdd >> 8) // the library omits it: without it nothing is fetched
	return asm.Instructions{
		asm.JEq.Imm(regBelow, 0, "let"),
		asm.LoadMapValue(regCounts, 0, 0).WithReference(countsMap),
		asm.Mov.Imm(asm.R1, 1),
		ask,
		asm.Mul.Imm(asm.R1, int32(j.percent)),
		asm.Mod.Imm(asm.R1, 100),
		asm.Add.Imm(asm.R1, int32(j.percent)),
		asm.JLT.Imm(asm.R1, 100, "let"),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(regCounts, asm.R1, asm.DWord, countDenied),
		asm.Mov.Imm(asm.R0, -int32(j.errno)),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("let"),
		asm.Return(),
	}
}
