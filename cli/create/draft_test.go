package create

import (
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newDraft(t *testing.T, kind v1beta1.Kind) *Draft {
	t.Helper()
	d, err := New(kind, now, "squall-chaos")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A person who accepts every proposal gets a valid manifest of the chosen fault.
func TestEveryKindCanBeProposed(t *testing.T) {
	kinds, err := Kinds()
	if err != nil || len(kinds) != len(v1beta1.AllKinds()) {
		t.Fatalf("kinds = %v, %v; want all", kinds, err)
	}
	for _, kind := range kinds {
		t.Run(string(kind.Kind), func(t *testing.T) {
			if kind.About == "" {
				t.Error("it has no description")
			}
			d, asked := newDraft(t, kind.Kind), 0
			for _, q := range d.Questions() {
				if q.About == "" || q.Proposed == "" {
					t.Errorf("question %+v has too little text", q)
				}
				if strings.HasPrefix(q.Field, "spec."+d.kind+".") {
					asked++
				}
				if err := d.Answer(q.Field, q.Proposed); err != nil {
					t.Errorf("%s = %s is refused: %v", q.Field, q.Proposed, err)
				}
			}
			made := d.Disruption()
			if made == nil || len(made.Spec.Kinds()) != 1 || made.Spec.Kinds()[0] != kind.Kind || asked == 0 {
				t.Errorf("%d questions about the kind, then %+v with problems %q", asked, made, d.Problems())
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name          string
		kind          v1beta1.Kind
		field, answer string
		want          string // in the manifest
		refused       string // why, in part
	}{
		{name: "a number", kind: v1beta1.KindNetwork, field: "spec.network.drop", answer: "35", want: "drop: 35"},
		{name: "a number out of bounds", kind: v1beta1.KindNetwork, field: "spec.network.drop", answer: "135", want: "drop: 20", refused: "135"},
		{name: "a word for a number", kind: v1beta1.KindNetwork, field: "spec.network.drop", answer: "many", want: "drop: 20", refused: `percentage "many": want a whole number`},
		{name: "labels in short", kind: v1beta1.KindNetwork, field: "spec.selector", answer: "app=shop, tier=web", want: "selector: {app: shop, tier: web}"},
		{name: "a list in short", kind: v1beta1.KindDiskFailure, field: "spec.diskFailure.paths", answer: "/a, /b", want: "paths: [/a, /b]"},
		{name: "a percentage", kind: v1beta1.KindNetwork, field: "spec.count", answer: "10%", want: "count: 10%"},
		{name: "a number as text", kind: v1beta1.KindDNS, field: "spec.dns.records[0].hostname", answer: "10", want: `hostname: "10"`},
		{name: "a duration without a unit", kind: v1beta1.KindNetwork, field: "spec.duration", answer: "10", want: "duration: 5m", refused: "10s"},
		{name: "no name", kind: v1beta1.KindNetwork, field: "metadata.name", answer: "-", want: "name: network-disruption", refused: "want a name"},
		{name: "an impossible name", kind: v1beta1.KindNetwork, field: "metadata.name", answer: "No Name", want: "name: network-disruption", refused: "lowercase"},
		{name: "where no target may be", kind: v1beta1.KindNetwork, field: "metadata.namespace", answer: "squall-chaos", refused: "chaos pods"},
		{name: "a list that does not end", kind: v1beta1.KindDiskFailure, field: "spec.diskFailure.paths", answer: "[/a", want: "paths: [/data]", refused: "cannot be understood"},
		{name: "a field that the sample has not", kind: v1beta1.KindNetwork, field: "spec.pulse.activeDuration", answer: "10s", want: "activeDuration: 10s"},
		{name: "left out", kind: v1beta1.KindNetwork, field: "spec.network.hosts[0].protocol", answer: "-", want: "- port: 5432\n"},
		{name: "an item too far", kind: v1beta1.KindNetwork, field: "spec.network.hosts[7].port", answer: "1", refused: "number of an item"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDraft(t, c.kind)
			before := string(d.YAML())
			err := d.Answer(c.field, c.answer)
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("error %v, want one with %q", err, c.refused)
			}
			got := string(d.YAML())
			if !strings.Contains(got, c.want) || c.refused != "" && got != before {
				t.Errorf("manifest\n%s\nwant it to have %q, and unchanged if refused", got, c.want)
			}
		})
	}
}

// Two answers may only be valid together: the second resolves a problem of the first.
func TestWhatOtherFieldsNeedIsAProblemOfTheWhole(t *testing.T) {
	d := newDraft(t, v1beta1.KindNetwork)
	if err := d.Answer("spec.network.drop", Nothing); err != nil {
		t.Fatal(err)
	}
	if problems := d.Problems(); len(problems) != 1 || !strings.Contains(problems[0], "nothing is asked for") || d.Disruption() != nil {
		t.Fatalf("problems = %q", problems)
	}
	q, err := d.Ask("delay")
	if err != nil || q.Field != "spec.network.delay" || !strings.Contains(q.About, "milliseconds") {
		t.Fatalf("question %+v, %v", q, err)
	}
	if err := d.Answer(q.Field, "100"); err != nil || d.Disruption() == nil {
		t.Errorf("error %v, problems %q", err, d.Problems())
	}
}

func TestAskNamesTheNearestField(t *testing.T) {
	d := newDraft(t, v1beta1.KindNetwork)
	if _, err := d.Ask("dealy"); err == nil || !strings.Contains(err.Error(), `did you mean "delay"?`) {
		t.Errorf("error %v", err)
	}
	for _, field := range d.Others() {
		if _, err := d.Ask(field); err != nil {
			t.Errorf("%s is named, and then: %v", field, err)
		}
	}
}

func TestCommentsOfTheSampleStay(t *testing.T) {
	d := newDraft(t, v1beta1.KindNetwork)
	if err := d.Answer("spec.network.drop", "1"); err != nil || !strings.Contains(string(d.YAML()), "# delay: 100") {
		t.Errorf("error %v, manifest\n%s", err, d.YAML())
	}
}
