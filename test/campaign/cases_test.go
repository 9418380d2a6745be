package campaign

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
)

const crd = "../../deploy/crds/chaos.squall.dev_disruptions.yaml"

// Of 100 fields at least 95 are exercised: by a base that has them.
func TestFieldsAreExercised(t *testing.T) {
	fields, err := fieldsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	exercised := map[string]bool{}
	all := attempts(fields)
	for _, a := range all {
		exercised[a.field] = true
	}
	var missing []string
	for _, f := range fields {
		if !exercised[f.path] {
			missing = append(missing, f.path)
		}
	}
	t.Logf("%d fields, %d attempts, not exercised: %s", len(fields), len(all), strings.Join(missing, " "))
	if 100*len(missing) > 5*len(fields) {
		t.Errorf("%d of %d fields are exercised by no attempt: %s", len(missing), len(fields), strings.Join(missing, " "))
	}
}

func TestBasesAreValid(t *testing.T) {
	for _, b := range bases {
		text := examples.Replace(b.spec)
		d := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: b.name}}
		if err := yaml.UnmarshalStrict([]byte(text), &d.Spec); err != nil {
			t.Errorf("%s: %v", b.name, err)
			continue
		}
		d.Default()
		if errs := d.Validate(); len(errs) > 0 {
			t.Errorf("%s: %v", b.name, errs.ToAggregate())
		}
	}
}

// No attempt may end the machine that it is made on.
func TestNothingDangerousIsAttempted(t *testing.T) {
	fields, err := fieldsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attempts(fields) {
		for _, spec := range []map[string]any{a.spec, a.next} {
			if spec["nodeFailure"] != nil && spec["dryRun"] != true {
				t.Errorf("%s would end the machine", a)
			}
		}
	}
}

// A sample has every base and as many changes that should work as such that should
// not; over many seeds every attempt is made.
func TestSampled(t *testing.T) {
	fields, err := fieldsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	all := attempts(fields)
	const most, seeds = 40, 20
	valid, tried := 0, map[string]bool{}
	for _, a := range all {
		if a.field != "" && a.valid {
			valid++
		}
	}
	for seed := sample.Seed(1); seed <= seeds; seed++ {
		some, good := sampled(all, most, seed), 0
		for i, a := range some {
			if i < len(bases) && a.field != "" || i >= len(bases) && a.field == "" {
				t.Fatalf("seed %d: attempt %d is %s, want the bases first", seed, i, a)
			}
			if a.field != "" {
				tried[a.String()] = true
			}
			if a.field != "" && a.valid {
				good++
			}
		}
		if want := (most - len(bases)) / 2; len(some) != most || good != want {
			t.Errorf("seed %d: %d attempts, %d of them with a valid change, want %d and %d", seed, len(some), good, most, want)
		}
	}
	// If nothing were chosen twice, it were double.
	if want := seeds * (most - len(bases)) / 2; len(tried) < want {
		t.Errorf("%d seeds chose %d attempts, want at least %d: the sample does not rotate", seeds, len(tried), want)
	}
	if whole := sampled(all, 0, 1); len(whole) != len(all) {
		t.Errorf("%d of %d attempts without a limit", len(whole), len(all))
	}
	t.Logf("%d attempts, of which %d change a field so that it is valid", len(all), valid)
}

func TestMissing(t *testing.T) {
	for name, c := range map[string]struct {
		counts map[string]int
		made   int
		want   string
	}{
		"a sample with all":              {map[string]int{"refused": 1, "injected": 1, "explained": 1}, 40, ""},
		"a sample without one injected":  {map[string]int{"refused": 1, "explained": 1}, 40, "injected"},
		"a sample without one refused":   {map[string]int{"injected": 1, "rejected": 1}, 40, "refused"},
		"a sample that is injected all":  {map[string]int{"refused": 1, "injected": 1}, 40, "accepted and not injected"},
		"a whole run without one ended":  {map[string]int{"refused": 1, "injected": 1, "explained": 1}, 1460, "ended"},
		"a whole run with each of these": {map[string]int{"refused": 1, "injected": 1, "explained": 1, "ended": 1}, 1460, ""},
	} {
		if got := strings.Join(missing(c.counts, c.made), ", "); got != c.want {
			t.Errorf("%s: missing is %q, want %q", name, got, c.want)
		}
	}
}
