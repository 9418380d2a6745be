//go:build linux

package classifier

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Counts are the counts of programs: packets to which a rule with an effect applied, and
// how often one of them was dropped, corrupted, duplicated or selected. Packets that no
// rule matches cost nothing.
type Counts struct{ array *ebpf.Map }

// The indexes of the map.
const (
	countMatched = 0
	countTaken   = 1
)

// NewCounts makes counts that are 0. Close releases them.
func NewCounts() (*Counts, error) {
	array, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: "squall_counts", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("make a map for counts: %w", err)
	}
	return &Counts{array}, nil
}

// Read adds up the counts of all processors.
func (c *Counts) Read() (matched, taken uint64, err error) {
	for place, sum := range map[uint32]*uint64{countMatched: &matched, countTaken: &taken} {
		var counted []uint64
		if err := c.array.Lookup(place, &counted); err != nil {
			return 0, 0, fmt.Errorf("read counts: %w", err)
		}
		for _, n := range counted {
			*sum += n
		}
	}
	return matched, taken, nil
}

// Close is safe on nil.
func (c *Counts) Close() {
	if c != nil {
		c.array.Close()
	}
}

// count adds one at an index. It changes no register from R6 on.
func (c *Counts) count(place int64) asm.Instructions {
	if c == nil {
		return nil
	}
	return asm.Instructions{
		asm.StoreImm(asm.RFP, stackProbe, place, asm.Word),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackProbe),
		asm.LoadMapPtr(asm.R1, c.array.FD()),
		asm.FnMapLookupElem.Call(),
		over(asm.JEq, asm.R0, 0, 2), // never happens, but the verifier cannot know
		asm.Mov.Imm(asm.R1, 1),
		asm.StoreXAdd(asm.R0, asm.R1, asm.DWord),
	}
}
