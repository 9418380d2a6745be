//go:build linux

package classifier

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf/asm"
)

// fewRules are tested one after the other: for so few, a search costs more than it saves.
const fewRules = 4

// span is the part of a register's values that a rule matches, both ends included.
type span struct{ low, high uint64 }

func (s span) holds(other span) bool { return s.low <= other.low && other.high <= s.high }

// inside orders spans so that each follows those that contain it.
func (s span) inside(other span) int {
	return cmp.Or(cmp.Compare(s.low, other.low), cmp.Compare(other.high, s.high))
}

// key is a register by whose value rules can be searched. Any two spans of rules in it are
// equal or disjoint, or one contains the other.
type key struct {
	register asm.Register
	width    int
	of       func(Match) span
}

var anyPort = span{0, noPort}

var portKeys = []key{
	{regPort, 32, func(m Match) span { return portSpan(m.Port) }},
	{regSourcePort, 32, func(m Match) span { return portSpan(m.SourcePort) }},
}

// keysOf are the keys of the rules of a family, in the order of the search.
var keysOf = map[int32][]key{
	4: append([]key{
		{regAddress, 32, func(m Match) span { return addressSpan(m.Remote, 0) }},
	}, portKeys...),
	6: append([]key{
		{regHigh, 64, func(m Match) span { return addressSpan(m.Remote, 0) }},
		{regLow, 64, func(m Match) span { return addressSpan(m.Remote, 64) }},
	}, portKeys...),
}

func portSpan(port uint16) span {
	if port == 0 {
		return anyPort
	}
	return span{uint64(port), uint64(port)}
}

// addressSpan is the range that a prefix leaves open of the 32 or 64 bits of an address
// from one bit on.
func addressSpan(remote netip.Prefix, from int) span {
	if !remote.IsValid() {
		return span{0, ^uint64(0)}
	}
	value, width := uint64(0), 64
	if bytes := remote.Addr().AsSlice(); len(bytes) == 4 {
		value, width = uint64(binary.BigEndian.Uint32(bytes)), 32
	} else {
		value = binary.BigEndian.Uint64(bytes[from/8:])
	}
	open := ^uint64(0) >> (64 - width) >> min(max(remote.Bits()-from, 0), width)
	return span{value &^ open, value | open}
}

// searchable splits rules where their effect changes: within a run, order does not matter.
// It omits rules after one that matches every packet, as the verifier refuses unreachable
// code.
func searchable(rules []Rule) [][]Rule {
	var runs [][]Rule
	for at, rule := range rules {
		if at == 0 || rule.Effect != rules[at-1].Effect {
			runs = append(runs, nil)
		}
		last := len(runs) - 1
		if len(mismatch(rule)) == 0 {
			runs[last] = []Rule{rule}
			break
		}
		runs[last] = append(runs[last], rule)
	}
	return runs
}

// split puts the rules of runs into chunks of at most chunkRules.
func split(runs [][]Rule) [][][]Rule {
	var chunks [][][]Rule
	room := 0
	for _, run := range runs {
		for len(run) > 0 {
			if room == 0 {
				chunks, room = append(chunks, nil), chunkRules
			}
			count := min(room, len(run))
			chunks[len(chunks)-1] = append(chunks[len(chunks)-1], run[:count])
			run, room = run[count:], room-count
		}
	}
	return chunks
}

// layers splits rules by a key into lists of groups. In a group spans are equal; in a layer
// they are disjoint and ascend. A span inside another is in a later layer.
func layers(rules []Rule, k key) [][][]Rule {
	sorted := slices.Clone(rules)
	slices.SortStableFunc(sorted, func(a, b Rule) int { return k.of(a.Match).inside(k.of(b.Match)) })
	var all [][][]Rule
	var around []span
	for _, rule := range sorted {
		own := k.of(rule.Match)
		for len(around) > 0 && !around[len(around)-1].holds(own) {
			around = around[:len(around)-1]
		}
		if depth := len(around) - 1; depth >= 0 && around[depth] == own {
			last := len(all[depth]) - 1
			all[depth][last] = append(all[depth][last], rule)
			continue
		}
		around = append(around, own)
		if len(all) < len(around) {
			all = append(all, nil)
		}
		all[len(around)-1] = append(all[len(around)-1], []Rule{rule})
	}
	return all
}

// searcher assembles a search that leads a packet to the rules it may match. It tests each
// of these in full, and skips those that cannot match.
type searcher struct {
	// test assembles the tests of rules, one after the other.
	test func([]Rule) asm.Instructions
	// label makes unique labels.
	label func() string
}

// search assembles a run of rules. A packet that matches none continues after it.
func (s searcher) search(rules []Rule, keys []key) asm.Instructions {
	if len(rules) <= fewRules || len(keys) == 0 {
		return s.test(rules)
	}
	var program asm.Instructions
	for _, groups := range layers(rules, keys[0]) {
		program = append(program, s.halve(groups, keys)...)
	}
	return program
}

// halve leads a packet to the half of the groups that contains its value.
func (s searcher) halve(groups [][]Rule, keys []key) asm.Instructions {
	if len(groups) == 1 {
		return s.search(groups[0], keys[1:])
	}
	if all := slices.Concat(groups...); len(all) <= fewRules {
		return s.test(all)
	}
	middle := len(groups) / 2
	k, upper, end := keys[0], s.label(), s.label()
	program := reaches(k, k.of(groups[middle][0].Match).low, upper)
	program = append(program, s.halve(groups[:middle], keys)...)
	program = append(program, asm.Ja.Label(end), hop(upper))
	program = append(program, s.halve(groups[middle:], keys)...)
	return append(program, hop(end))
}

// reaches jumps if a key's value is bound or more. It compares a copy in another register
// that the verifier does not connect to the key. Otherwise the verifier would track its
// knowledge of the key along every path, and refuse the program.
func reaches(k key, bound uint64, label string) asm.Instructions {
	return append(constant(regMismatch, bound, k.width),
		asm.Mov.Imm(regScratch, 0),
		asm.Or.Reg(regScratch, k.register),
		asm.JGE.Reg(regScratch, regMismatch, label))
}

func constant(into asm.Register, value uint64, width int) asm.Instructions {
	if width == 32 {
		return asm.Instructions{asm.Mov.Imm32(into, int32(uint32(value)))}
	}
	return asm.Instructions{asm.LoadImm(into, int64(value), asm.DWord)}
}
