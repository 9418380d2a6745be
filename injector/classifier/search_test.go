//go:build linux

package classifier

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/squall-chaos/squall/test/testneeds"
)

// The result of the kernel's search must equal that of a plain loop over the list.
func TestSearchFindsTheFirstRuleThatMatches(t *testing.T) {
	testneeds.BeRoot(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, count := range []int{fewRules, 40, 700} {
		for _, local := range []string{localIPv4, localIPv6} {
			t.Run(fmt.Sprintf("%d rules, from %s", count, local), func(t *testing.T) {
				decided := map[uint32]int{}
				for range 8 {
					rules := make([]Rule, count)
					for i := range rules {
						rules[i] = randomRule(random, count, local == localIPv4)
					}
					program := loadForTest(t, Egress, rules, nil)
					for range 150 {
						p := randomPacket(random, rules, local)
						want := passes
						if first := slices.IndexFunc(rules, func(r Rule) bool { return meant(r.Match, p) }); first >= 0 && rules[first].Drop > 0 {
							want = drops
						}
						got, _, err := program.Test(p.bytes())
						if err != nil || got != want {
							t.Fatalf("verdict of %+v = %d, %v, want %d; rules:\n%+v", p, int32(got), err, int32(want), rules)
						}
						decided[got]++
					}
				}
				if len(decided) < 2 {
					t.Errorf("verdicts %v: want packets of both sorts", decided)
				}
			})
		}
	}
}

// randomRule makes rules that are partly alike: networks in networks, a few ports, and
// effects that change sometimes.
func randomRule(random *rand.Rand, count int, ipv4 bool) Rule {
	rule := Rule{Match: Match{Direction: Egress, Protocol: []Protocol{Any, Any, TCP, UDP}[random.IntN(4)]}}
	if random.IntN(8) > 0 {
		address := randomAddress(random, ipv4)
		bits := address.BitLen() - random.IntN(8)*random.IntN(2)
		if !ipv4 && random.IntN(count) == 0 {
			bits = 50 + random.IntN(20)
		}
		rule.Remote = netip.PrefixFrom(address, bits)
	}
	if !rule.Remote.IsValid() || random.IntN(3) > 0 {
		rule.Port = uint16(1 + random.IntN(count))
	}
	if !rule.Remote.IsValid() || random.IntN(6) == 0 {
		rule.SourcePort = uint16(1 + random.IntN(4))
	}
	if random.IntN(max(count/20, 2)) > 0 {
		rule.Drop = 100
	}
	return rule
}

// randomAddress is one of a few thousand, near each other in both halves.
func randomAddress(random *rand.Rand, ipv4 bool) netip.Addr {
	low := random.Uint32N(1 << 11)
	if ipv4 {
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, 0xfffffc00+low&0x3ff-low>>10<<31)))
	}
	bytes := [16]byte{0x20, 1, 7: byte(random.IntN(3))}
	binary.BigEndian.PutUint32(bytes[12:], low|low>>10<<31)
	return netip.AddrFrom16(bytes)
}

// randomPacket usually matches a rule, or nearly does.
func randomPacket(random *rand.Rand, rules []Rule, local string) packet {
	rule := rules[random.IntN(len(rules))]
	address := rule.Remote.Addr()
	if !address.IsValid() || random.IntN(3) == 0 {
		address = randomAddress(random, local == localIPv4)
	}
	return packet{source: local, destination: address.String(), protocol: []byte{6, 17, 132}[random.IntN(3)],
		sourcePort: uint16(1 + random.IntN(5)), port: rule.Port + uint16(random.IntN(2))}
}

func meant(m Match, p packet) bool {
	ports := p.protocol == byte(TCP) || p.protocol == byte(UDP)
	return (!m.Remote.IsValid() || m.Remote.Contains(netip.MustParseAddr(p.destination))) &&
		(m.Port == 0 || ports && m.Port == p.port) &&
		(m.SourcePort == 0 || ports && m.SourcePort == p.sourcePort) &&
		(m.Protocol == Any || byte(m.Protocol) == p.protocol)
}

// Most rules cost a packet little more than one rule does: testing one after the other
// would cost twenty times as much. The best of several runs is the program's own cost,
// despite other load on the machine.
func TestMostRulesCostLittleMoreThanOne(t *testing.T) {
	testneeds.BeRoot(t)
	cost := map[int]float64{1: 0, mostRules: 0}
	for count := range cost {
		program := loadForTest(t, Egress, benchmarkRules(count), nil)
		for range 10 {
			took := perPacket(t, program, 5000)
			if cost[count] == 0 || took < cost[count] {
				cost[count] = took
			}
		}
	}
	t.Logf("%.0f ns with %d rules, %.0f ns with one", cost[mostRules], mostRules, cost[1])
	if cost[mostRules] > 5*cost[1] {
		t.Errorf("%.0f ns with %d rules, %.0f ns with one; want at most five times as long", cost[mostRules], mostRules, cost[1])
	}
}

func perPacket(t testing.TB, program *ebpf.Program, times int) float64 {
	verdict, took, err := program.Benchmark(benchmarkPacket.bytes(), times, nil)
	if err != nil || verdict != drops {
		t.Fatalf("verdict = %d, %v, want a drop", int32(verdict), err)
	}
	return float64(took.Nanoseconds())
}

// benchmarkPacket matches none but the last of the rules.
var benchmarkPacket = packet{source: localIPv4, destination: remoteIPv4, protocol: 17, port: 9}

func benchmarkRules(count int) []Rule {
	var rules []Rule
	for i := range count - 1 {
		remote := netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), 32)
		rules = append(rules, Rule{Match{Direction: Egress, Remote: remote, Port: 80, Protocol: TCP}, Effect{Drop: 50}})
	}
	return append(rules, Rule{Match{Direction: Egress, Protocol: UDP, Port: 9}, Effect{Drop: 100}})
}

// BenchmarkProgram prints the cost of judging a packet that matches only the last of the
// rules. The kernel itself runs the program that often (BPF_PROG_TEST_RUN), so that nothing
// else is measured.
func BenchmarkProgram(b *testing.B) {
	for _, count := range []int{1, mostRules} {
		b.Run(fmt.Sprintf("rules=%d", count), func(b *testing.B) {
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT",
				Instructions: Program(Spec{Direction: Egress, Rules: benchmarkRules(count)})})
			if err != nil {
				b.Fatal(err)
			}
			defer program.Close()
			b.ReportMetric(perPacket(b, program, max(b.N, 100)), "ns/packet")
		})
	}
}
