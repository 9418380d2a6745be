//go:build linux

package network

import (
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
)

// rule E1: the counted packets are those that a peer does not receive.
func TestWhatIsTakenIsCounted(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 40, Hosts: []v1beta1.NetworkHost{{Host: hostIPv4, Port: 7000, Protocol: "udp"}}}, try)
		if got := lost(t, w.out(hostIPv4, 7001, 100)); got != 0 {
			t.Errorf("%d of 100 lost that do not match", got)
		}
		if state, evidence, err := i.Prove(t.Context()); state != v1beta1.EffectNothingMatchedYet || err != nil {
			t.Errorf("before a packet matches: %s, %q, %v", state, evidence, err)
		}
		missing := lost(t, w.out(hostIPv4, 7000, 1000))
		matched, taken, err := i.namespaces[0].counts.Read()
		if err != nil || matched != 1000 || taken != uint64(missing) {
			t.Errorf("counted %d taken of %d, %v, want %d of 1000", taken, matched, err, missing)
		}
		if state, evidence, err := i.Prove(t.Context()); state != v1beta1.EffectProven || !strings.Contains(evidence, "of 1000") || err != nil {
			t.Errorf("after that: %s, %q, %v", state, evidence, err)
		}
		clean(t, i)
	})
}

// rule E1
func TestWhatCountsMean(t *testing.T) {
	for _, test := range []struct {
		name    string
		counted counted
		want    v1beta1.EffectState
		text    string
	}{
		{"nothing came by", counted{}, v1beta1.EffectNothingMatchedYet, "no packet"},
		{"too few to tell", counted{matched: 999}, v1beta1.EffectNothingMatchedYet, "0 of 999"},
		{"enough, and none was taken", counted{matched: 1000}, v1beta1.EffectIneffective, "0 of 1000"},
		{"one was taken", counted{matched: 1000, taken: 1}, v1beta1.EffectProven, "1 of 1000"},
		{"packets wait", counted{queued: 5}, v1beta1.EffectProven, "5 packets delayed"},
		{"both", counted{matched: 10, taken: 4, queued: 5}, v1beta1.EffectProven, "4 of 10"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if state, evidence := test.counted.proof(); state != test.want || !strings.Contains(evidence, test.text) {
				t.Errorf("proof = %s, %q, want %s with %q", state, evidence, test.want, test.text)
			}
		})
	}
}
