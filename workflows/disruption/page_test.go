package disruption

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// rule T2
func TestDetailsOfAStuckDisruption(t *testing.T) {
	left := []chaospod.LeftPod{
		{Pod: "chaos-1", Node: "n1", Target: "till-1", Kind: v1beta1.KindNetwork, Why: "exit 1\nfilter a|b"},
		{Pod: "chaos-2", Node: "n1", Target: "till-1", Kind: v1beta1.KindCPUPressure},
		{Pod: "chaos-3", Node: "n2", Target: "till-2", Kind: v1beta1.KindNetwork},
	}
	page := details(ref, State{Plan: &prepare.Plan{}, Phase: v1beta1.PhaseStuck, Cleaning: Cleaning{Left: left, Remaining: 3}})

	t.Run("every example is accepted as it stands", func(t *testing.T) {
		examples := strings.Split(page, "```json\n")[1:]
		for _, example := range examples {
			document, _, _ := strings.Cut(example, "\n```")
			var resume contract.Resume
			if err := json.Unmarshal([]byte(document), &resume); err != nil {
				t.Fatalf("%s: %v", document, err)
			}
			if err := checkResume(left, resume); err != nil {
				t.Errorf("%s: %v", document, err)
			}
		}
		if len(examples) != 2 {
			t.Errorf("the page has %d examples, want retry and release:\n%s", len(examples), page)
		}
	})
	t.Run("one item for each chaos pod, whatever its error", func(t *testing.T) {
		if want := "- till-1 on node n1, chaos pod `chaos-1 (network-disruption)`: `exit 1 filter a|b`\n"; !strings.Contains(page, want) {
			t.Errorf("no line %q in\n%s", want, page)
		}
		one := details(ref, State{Plan: &prepare.Plan{Kinds: []v1beta1.Kind{v1beta1.KindNetwork}}, Phase: v1beta1.PhaseStuck, Cleaning: Cleaning{Left: left[:1], Remaining: 1}})
		if want := "chaos pod `chaos-1`: "; !strings.Contains(one, want) {
			t.Errorf("no line %q in\n%s", want, one)
		}
	})
}

// rule T2
func TestDetailsOfferOnlyWhatWorks(t *testing.T) {
	for phase, want := range map[v1beta1.Phase][]bool{
		v1beta1.PhaseHolding: {true, true, false}, v1beta1.PhaseStuck: {true, false, false},
		v1beta1.PhaseCleaning: {true, false, false}, v1beta1.PhaseFinished: {false, false, true},
	} {
		page := details(ref, State{Plan: &prepare.Plan{}, Phase: phase})
		for i, command := range []string{"describe disruption", "delete disruption", "squall -n"} {
			if strings.Contains(page, command) != want[i] {
				t.Errorf("%s: the page offers %q: %t, want %t", phase, command, !want[i], want[i])
			}
		}
	}
}

// rule S19
func TestDetailsNameTheRequester(t *testing.T) {
	for who, want := range map[string]string{
		"":                  "Faults: network-disruption.\n",
		"ann@example.com":   "Faults: network-disruption. Asked for by `ann@example.com`.\n",
		"a`b**\n## Over. c": "Asked for by `a'b** ## Over. c`.\n",
	} {
		page := details(ref, State{Plan: &prepare.Plan{Kinds: []v1beta1.Kind{v1beta1.KindNetwork}, Requester: who}, Phase: v1beta1.PhaseHolding})
		if !strings.Contains(page, want) {
			t.Errorf("asked for by %q: details = %s\nwant %s in it", who, page, want)
		}
	}
}

// rule 48
func TestDetailsNameWhoDecided(t *testing.T) {
	page := details(ref, State{Plan: &prepare.Plan{}, Phase: v1beta1.PhaseFinished, Cleaning: Cleaning{ReleasedPods: 1}, Resumes: []v1beta1.ResumeRecord{
		{Action: contract.ActionRetry},
		{Action: contract.ActionRelease, Targets: []string{"till-1", "till-2"}, By: "ann", Reason: "scrap\n## Over. `Nothing` is left."},
	}})
	want := "### Decided so far\n\n- `retry`\n- `release till-1, till-2 by ann: scrap ## Over. 'Nothing' is left.`"
	if !strings.HasSuffix(page, want) {
		t.Errorf("details = %s\nwant at the end %s", page, want)
	}
}
