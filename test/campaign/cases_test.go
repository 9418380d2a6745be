package campaign

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const crd = "../../deploy/crds/chaos.squall.dev_disruptions.yaml"

// Of 100 fields at least 95 are exercised: by a base that has them.
func TestFieldsAreExercised(t *testing.T) {
	fields, err := fieldsOf(crd)
	if err != nil {
		t.Fatal(err)
	}
	exercised := map[string]bool{}
	all := attempts(fields, 1)
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
		text := strings.NewReplacer("{slot}", "1", "{node}", "a", "{namespace}", "shop").Replace(b.spec)
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
	for _, a := range attempts(fields, 1) {
		for _, spec := range []map[string]any{a.spec, a.next} {
			if spec["nodeFailure"] != nil && spec["dryRun"] != true {
				t.Errorf("%s would end the machine", a)
			}
		}
	}
}
