package chaospod

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

var update = flag.Bool("update", false, "write the golden files")

func TestChaosPodGolden(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	b := Builder{Namespace: "squall-chaos", Image: "squall.local/squall:dev"}
	limit := int64(1 << 20)
	for _, faults := range []v1beta1.Faults{
		{ContainerFailure: &v1beta1.ContainerFailure{Forced: true}},
		{CPUPressure: &v1beta1.CPUPressure{}},
		{DiskPressure: &v1beta1.DiskPressure{Path: "/data", Throttling: v1beta1.DiskPressureThrottling{WriteBytesPerSec: &limit}}},
		{Network: &v1beta1.NetworkDisruption{Drop: 40, Hosts: []v1beta1.NetworkHost{{Host: "10.0.0.0/8", Port: 80}}}},
	} {
		fault := faults.Requested()[0]
		t.Run(string(fault.Kind), func(t *testing.T) {
			d := &v1beta1.Disruption{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "calm", UID: "11111111-2222", CreationTimestamp: metav1.NewTime(created)},
				Spec:       v1beta1.DisruptionSpec{Faults: faults, Level: v1beta1.LevelPod, Duration: &v1beta1.Duration{Duration: 5 * time.Minute}},
			}
			target := v1beta1.InjectionTarget{
				Namespace: "shop", Name: "web-0", UID: "33333333-4444", NodeName: "node-1",
				NodeIPs: []string{"10.1.0.1"}, PodIPs: []string{"10.244.1.7"},
				Containers: []v1beta1.InjectionContainer{{Name: "main", ID: "abc"}},
			}
			pod, err := b.ChaosPod(d, 0, target, fault, created.Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			for _, probe := range []*corev1.Probe{pod.Spec.Containers[0].StartupProbe, pod.Spec.Containers[0].ReadinessProbe} {
				if !cmp.Equal(probe.Exec.Command, []string{"/injector", "ready"}) {
					t.Errorf("probe = %v, want the injector's own look at %s", probe, v1beta1.ReadyFile) // rule 32
				}
			}
			got, err := yaml.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "pods", string(fault.Kind)+".yaml")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("chaos pod differs from %s (-want +got); write it anew with -update:\n%s", golden, diff)
			}
		})
	}
}
