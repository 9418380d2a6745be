package chaospod

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/golden"
)

func TestChaosPodGolden(t *testing.T) {
	created := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	b := Builder{Namespace: "squall-chaos", Image: "squall.local/injector:dev"}
	limit := int64(1 << 20)
	for _, faults := range []v1beta1.Faults{
		{ContainerFailure: &v1beta1.ContainerFailure{Forced: true}},
		{CPUPressure: &v1beta1.CPUPressure{}},
		{DiskFailure: &v1beta1.DiskFailure{Paths: []string{"/data"}}},
		{DiskPressure: &v1beta1.DiskPressure{Path: "/data", Throttling: v1beta1.DiskPressureThrottling{WriteBytesPerSec: &limit}}},
		{DNS: &v1beta1.DNSDisruption{Records: []v1beta1.DNSHostRecord{{Hostname: "db", Record: v1beta1.DNSRecord{Type: "A", Value: "NXDOMAIN"}}}}},
		{GRPC: &v1beta1.GRPCDisruption{Port: 50051, Endpoints: []v1beta1.GRPCEndpoint{{TargetEndpoint: "/shop.Orders/Place", ErrorToReturn: "UNAVAILABLE", QueryPercent: 30}}}},
		{MemoryPressure: &v1beta1.MemoryPressure{TargetPercent: v1beta1.Percentage{Text: "76%"}, RampDuration: &v1beta1.Duration{Duration: time.Minute}}},
		{Network: &v1beta1.NetworkDisruption{Drop: 40, Hosts: []v1beta1.NetworkHost{{Host: "10.0.0.0/8", Port: 80}}}},
		{NodeFailure: &v1beta1.NodeFailure{Shutdown: true}},
		{Network: &v1beta1.NetworkDisruption{Drop: 40, Services: []v1beta1.NetworkService{{Name: "db"}}}},
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
			for probe, want := range map[*corev1.Probe][]string{
				pod.Spec.Containers[0].StartupProbe:   {"/injector", "ready", "--wait=3s"},
				pod.Spec.Containers[0].ReadinessProbe: {"/injector", "ready"},
			} {
				if !cmp.Equal(probe.Exec.Command, want) {
					t.Errorf("probe = %v, want the injector's own look at %s", probe, v1beta1.ReadyFile) // rule 32
				}
			}
			got, err := yaml.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", "pods", string(fault.Kind)+".yaml")
			if faults.Network.NeedsResolving() {
				file = filepath.Join("testdata", "pods", "network-disruption-of-a-service.yaml")
			}
			golden.Compare(t, file, string(got))
		})
	}
}

// Only a kind that repeats itself gets the number of runs; for the others the workflow
// counts maxRuns.
func TestChaosPodHasTheNumberOfItsRuns(t *testing.T) {
	runs := 3
	target := v1beta1.InjectionTarget{Namespace: "shop", Name: "web-0", UID: "33333333-4444", NodeName: "node-1"}
	for want, failure := range map[int]v1beta1.ContainerFailure{0: {}, 3: {Interval: &v1beta1.Duration{Duration: time.Minute}}} {
		d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{ContainerFailure: &failure}, MaxRuns: &runs}}
		document, err := Builder{}.injection(d, target, d.Spec.Requested()[0], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var injection v1beta1.Injection
		if err := json.Unmarshal([]byte(document), &injection); err != nil || injection.MaxRuns != want {
			t.Errorf("maxRuns = %d, %v, want %d for %+v", injection.MaxRuns, err, want, failure)
		}
	}
}

// The chaos pods of a pod that waits know which kinds it waits for, and may signal
// another user's process; all others may not.
func TestChaosPodOfAPodThatWaits(t *testing.T) {
	target := v1beta1.InjectionTarget{Namespace: "shop", Name: "web-0", UID: "33333333-4444", NodeName: "node-1"}
	faults := v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 40}, DNS: &v1beta1.DNSDisruption{}}
	for onInit, want := range map[bool][]v1beta1.Kind{true: {v1beta1.KindDNS, v1beta1.KindNetwork}, false: nil} {
		d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{Faults: faults, Level: v1beta1.LevelPod, OnInit: onInit}}
		pod, err := Builder{}.ChaosPod(d, 0, target, faults.Requested()[1], time.Now())
		if err != nil {
			t.Fatal(err)
		}
		container := pod.Spec.Containers[0]
		var injection v1beta1.Injection
		if err := json.Unmarshal([]byte(container.Env[0].Value), &injection); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, injection.OnInit); diff != "" {
			t.Errorf("onInit (-want +got):\n%s", diff)
		}
		if may := slices.Contains(container.SecurityContext.Capabilities.Add, "KILL"); may != onInit {
			t.Errorf("with onInit %t the injector may signal: %t", onInit, may)
		}
	}
}

func TestAllOnNodesPullsWithTheSecretsOfTheInstallation(t *testing.T) {
	for name, pod := range allOnNodes(t, Builder{Namespace: "squall-chaos", Image: "squall:test", ImagePullSecrets: []string{"registry", "mirror"}}) {
		want := []corev1.LocalObjectReference{{Name: "registry"}, {Name: "mirror"}}
		if diff := cmp.Diff(want, pod.Spec.ImagePullSecrets); diff != "" {
			t.Errorf("%s: pull secrets (-want +got):\n%s", name, diff)
		}
	}
}

// On a node that enforces SELinux, a confined pod could not inject, clean or search.
func TestAllOnNodesHasTheSELinuxTypeOfTheInstallation(t *testing.T) {
	for name, pod := range allOnNodes(t, Builder{Namespace: "squall-chaos", Image: "squall:test", SELinuxType: "spc_t"}) {
		if got := pod.Spec.Containers[0].SecurityContext.SELinuxOptions; got == nil || *got != (corev1.SELinuxOptions{Type: "spc_t"}) {
			t.Errorf("%s has SELinux options %v, want type spc_t", name, got)
		}
	}
}

// A node whose pods take all processors gives each its share by its request.
func TestAllOnNodesAsksForTheProcessorsOfTheInstallation(t *testing.T) {
	for asked, want := range map[string]string{"0": "50m", "200m": "200m"} {
		for name, pod := range allOnNodes(t, Builder{Namespace: "squall-chaos", Image: "squall:test", CPU: resource.MustParse(asked)}) {
			if got := pod.Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
				t.Errorf("with %s set a %s asks for %s, want %s", asked, name, got, want)
			}
		}
	}
}

// allOnNodes returns one pod of each sort.
func allOnNodes(t *testing.T, b Builder) map[string]*corev1.Pod {
	t.Helper()
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "calm", UID: "1"},
		Spec: v1beta1.DisruptionSpec{Faults: v1beta1.Faults{CPUPressure: &v1beta1.CPUPressure{}}, Level: v1beta1.LevelPod}}
	chaosPod, err := b.ChaosPod(d, 0, v1beta1.InjectionTarget{Name: "web-0", UID: "2"}, d.Spec.Requested()[0], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	command, err := b.NodeCommand(Owner{Name: "a"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, []string{"audit"})
	if err != nil {
		t.Fatal(err)
	}
	return map[string]*corev1.Pod{"chaos pod": chaosPod, "cleaner": b.Cleaner(chaosPod), "command on a node": command}
}

// Where an image is pulled slowly, a cleaner and a search of the node have the time
// that the installation sets.
func TestWhatRunsOnANodeHasTheTimeOfTheInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		timeout          time.Duration
		command, cleaner int64
	}{
		"nothing is set": {0, 60, 50},
		"slow nodes":     {MostNodeTimeout, 150, 140},
	} {
		t.Run(name, func(t *testing.T) {
			b := Builder{Namespace: "squall-chaos", Image: "squall:test", NodeTimeout: c.timeout}
			command, err := b.NodeCommand(Owner{Name: "a"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-0"}}, []string{"audit"})
			if err != nil {
				t.Fatal(err)
			}
			failed := &corev1.Pod{Spec: *command.Spec.DeepCopy()}
			if got := *command.Spec.ActiveDeadlineSeconds; got != c.command {
				t.Errorf("a command on a node has %d s, want %d", got, c.command)
			}
			if got := *b.Cleaner(failed).Spec.ActiveDeadlineSeconds; got != c.cleaner {
				t.Errorf("a cleaner has %d s, want %d", got, c.cleaner)
			}
		})
	}
}
