package start

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func TestSummaryAndDetails(t *testing.T) {
	half := intstr.FromString("50%")
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{
		Faults:     v1beta1.Faults{ContainerFailure: &v1beta1.ContainerFailure{}, CPUPressure: &v1beta1.CPUPressure{}},
		Count:      &half,
		Selector:   map[string]string{"app": "shop"},
		Containers: []string{"web", "api"},
		Duration:   &v1beta1.Duration{Duration: 5 * time.Minute},
	}}
	d.Namespace, d.Name = "prod", "half"
	if got, want := summary(d), "container-failure, cpu-pressure on 50% of the pods app=shop in prod, containers api, web"; got != want {
		t.Errorf("summary = %q, want %q", got, want)
	}
	for _, want := range []string{"prod/half", "5m0s", "`50%`", "kubectl -n prod describe disruption half", "kubectl -n prod delete disruption half"} {
		if got := details(d); !strings.Contains(got, want) {
			t.Errorf("details do not have %q:\n%s", want, got)
		}
	}
	t.Run("of nodes", func(t *testing.T) {
		nodes := d.DeepCopy()
		nodes.Spec.Level = v1beta1.LevelNode
		if got := summary(nodes); !strings.Contains(got, "nodes app=shop") || strings.Contains(got, "prod") {
			t.Errorf("summary = %q", got)
		}
	})
	t.Run("with a selector of any length", func(t *testing.T) {
		long := d.DeepCopy()
		for i := range 50 {
			long.Spec.Selector[strings.Repeat("a", i+1)] = "b"
		}
		if got := summary(long); len(got) > 200 || !strings.HasSuffix(got, "…") {
			t.Errorf("summary has %d bytes: %q", len(got), got)
		}
		long.Spec.Containers = []string{strings.Repeat("ä", 20000)}
		if got := details(long); len(got) > 6000 || !strings.Contains(got, "…` |") || !strings.Contains(got, "kubectl -n prod delete") {
			t.Errorf("details have %d bytes: %q", len(got), got)
		}
	})
	t.Run("without letting a user's text be markup", func(t *testing.T) {
		if got, want := code("a|b`c\nd"), "`a\\|b'c d`"; got != want {
			t.Errorf("code = %s, want %s", got, want)
		}
	})
}
