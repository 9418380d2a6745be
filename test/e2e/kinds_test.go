//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Each kind: an effect that the containers feel, their recovery, and the target
// as it was before, looked at by the probe and not by the injector.

func TestNetworkDropIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(3)
	victims, client := pods[:2], pods[2] // one on each node
	s.label(client, "client")
	before := s.snapshots(victims)
	for _, victim := range victims {
		s.wantLoss(client, victim, "before", 0, 5)
	}

	d := s.injected(s.create("drop", "{selector: {app: target}, count: 2, duration: 5m, network: {drop: 40}}"))
	for _, victim := range victims {
		// 200 datagrams: 40 % give or take 3.5.
		s.wantLoss(client, victim, "during", 22, 60)
	}

	s.delete(d)
	s.gone(d)
	for _, victim := range victims {
		s.wantLoss(client, victim, "after", 0, 5)
	}
	s.wantSame(before, s.snapshots(victims))
}

func TestNetworkDropSparesOtherPorts(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	victim, client := pods[0], pods[1]
	s.label(client, "client")
	d := s.injected(s.create("drop-port", "{selector: {app: target}, count: 1, duration: 5m, network: {drop: 100, hosts: [{port: 9090, protocol: udp, flow: ingress}]}}"))
	s.wantLoss(client, victim, "of the port that is dropped", 100, 100)
	var answer struct{ Status int }
	if err := s.exec(t.Context(), &answer, s.name, client.Name, "/target", "get", "http://"+victim.Status.PodIP+":8080/healthz"); err != nil {
		t.Errorf("another port does not answer: %v", err)
	}
	s.delete(d)
	s.gone(d)
	s.wantLoss(client, victim, "after", 0, 5)
}

// The one of two containers that is chosen loses what it sends, though both have the
// same addresses and links.
func TestNetworkDropOfOneContainer(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2, oneBeside)
	victim, peer := pods[0], pods[1]
	s.label(peer, "peer")
	before := s.snapshots(pods[:1])
	s.wantLossOf("target", victim, peer, "before", 0, 5)

	d := s.injected(s.create("drop-container", "{selector: {app: target}, count: 1, duration: 5m, containers: [target], network: {drop: 100, hosts: [{port: 9090, protocol: udp}]}}"))
	s.wantLossOf("target", victim, peer, "during, from the container", 100, 100)
	s.wantLossOf("beside", victim, peer, "during, from the other container", 0, 5)

	s.delete(d)
	s.gone(d)
	s.wantLossOf("target", victim, peer, "after", 0, 5)
	s.wantSame(before, s.snapshots(pods[:1]))
}

func TestCPUPressureIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victims := s.targets(2, guaranteed)
	before := s.snapshots(victims)
	for _, victim := range victims {
		s.wantCores(victim, "before", 0, 0.06)
	}

	d := s.injected(s.create("burn", "{selector: {app: target}, count: 100%, duration: 5m, cpuPressure: {count: 100%}}"))
	for _, victim := range victims {
		// All of the 0.3 that its limit allows.
		s.wantCores(victim, "during", 0.2, 0.36)
	}

	s.delete(d)
	s.gone(d)
	for _, victim := range victims {
		s.wantCores(victim, "after", 0, 0.06)
	}
	s.wantSame(before, s.snapshots(victims))
}

// TestRemovedEffectIsReportedAndRestored (rule E3) removes the effect behind
// Squall's back.
func TestRemovedEffectIsReportedAndRestored(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victim := s.targets(1, guaranteed)[0]
	proven := func(d *v1beta1.Disruption) bool {
		return condition(d, v1beta1.ConditionEffectVerified).Status == metav1.ConditionTrue
	}
	d := s.injected(s.create("burn", "{selector: {app: target}, count: 1, duration: 5m, cpuPressure: {count: 100%}}"))
	s.await(d, "its effect is proven", proven)

	s.probe(t, nil, victim.Spec.NodeName, "kill", "--name", "exe", "--container", containerID(victim)) // the burners
	began := time.Now()
	eventually(t, func() string {
		if len(s.events(d.Name, "EffectLost")) == 0 {
			return "no event EffectLost: " + conditions(s.read(d))
		}
		return ""
	})
	t.Logf("told %s after the burners were killed", time.Since(began).Round(100*time.Millisecond))
	s.await(d, "its effect is proven again", proven)
	s.wantCores(victim, "put back", 0.2, 0.36)
	s.delete(d)
	s.gone(d)
}

func TestMemoryPressureIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victims := s.targets(2, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("200Mi")
	})
	before := s.snapshots(victims)
	for _, victim := range victims {
		s.wantMemory(victim, "before", 0, 40)
	}

	d := s.injected(s.create("fill", "{selector: {app: target}, count: 100%, duration: 5m, memoryPressure: {targetPercent: 70%}}"))
	for _, victim := range victims {
		s.wantMemory(victim, "during", 65, 75)
	}

	s.delete(d)
	s.gone(d)
	for i, victim := range victims {
		s.wantMemory(victim, "after", 0, 40)
		if now := s.running(victim.Name); now.Status.ContainerStatuses[0].RestartCount != victims[i].Status.ContainerStatuses[0].RestartCount {
			t.Errorf("the container of %s was started again: %v", victim.Name, now.Status.ContainerStatuses[0].LastTerminationState)
		}
	}
	s.wantSame(before, s.snapshots(victims))
}

// A ramp is a part of the disruption that is injected already.
func TestMemoryRises(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victim := s.targets(1, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("200Mi")
	})[0]
	d := s.injected(s.create("rise", "{selector: {app: target}, count: 1, duration: 5m, memoryPressure: {targetPercent: 80%, rampDuration: 90s}}"))
	s.wantMemory(victim, "while it rises", 30, 60)
	s.wantMemory(victim, "in the end", 75, 85)
	s.delete(d)
	s.gone(d)
	s.wantMemory(victim, "after", 0, 40)
}

func TestDiskPressureIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victims := s.targets(1, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Args = []string{"serve", "--write", "/data/file", "--write-block", "16384"}
	})
	victim := victims[0]
	const limit = 256 << 10
	s.awaitSpeed(victim, "before", 2*limit, 1<<40)
	before := s.snapshots(victims)

	d := s.injected(s.create("throttle", fmt.Sprintf("{selector: {app: target}, count: 1, duration: 5m, diskPressure: {path: /data, throttling: {writeBytesPerSec: %d}}}", limit)))
	s.awaitSpeed(victim, "during", limit/4, limit*3/2)

	s.delete(d)
	s.gone(d)
	s.awaitSpeed(victim, "after", 2*limit, 1<<40)
	s.wantSame(before, s.snapshots(victims))
}

// The one of two containers that is chosen is disturbed: half of its opens, with an error that
// every kernel gives, and then all of them, by a program or else a mount.
func TestDiskFailureIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victims := s.targets(1, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Args = []string{"serve", "--write", "/data/file"}
		oneBeside(pod)
	})
	victim := victims[0]
	s.wantOpens(victim, "target", "before", map[string]int{"ok": 100})
	before := s.snapshots(victims)

	for _, kind := range []struct {
		params string
		during map[string]int
	}{
		{"{paths: [/data], openat: {exitCode: EPERM}, probability: 50%}", map[string]int{"ok": 50, "operation not permitted": 50}},
		{"{paths: [/data/file]}", map[string]int{"no such file or directory": 100}},
	} {
		d := s.injected(s.create("broken", "{selector: {app: target}, count: 1, duration: 5m, containers: [target], diskFailure: "+kind.params+"}"))
		s.wantOpens(victim, "target", "during", kind.during)
		s.wantOpens(victim, "beside", "during, in the other container", map[string]int{"ok": 100})

		s.delete(d)
		s.gone(d)
		s.wantOpens(victim, "target", "after", map[string]int{"ok": 100})
		s.wantSame(before, s.snapshots(victims))
	}
}

// oneBeside gives a pod a second container.
func oneBeside(pod *corev1.Pod) {
	beside := pod.Spec.Containers[0].DeepCopy()
	beside.Name, beside.Args = "beside", []string{"serve", "--http", ":8081", "--echo", ":9091"}
	pod.Spec.Containers = append(pod.Spec.Containers, *beside)
}

// wantOpens opens the file on the volume a hundred times in a container of a target.
func (s *space) wantOpens(pod corev1.Pod, container, when string, want map[string]int) {
	s.t.Helper()
	var got map[string]int
	if err := s.execIn(s.t.Context(), &got, s.name, pod.Name, container, "/target", "open", "--count", "100", "/data/file"); err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s: opens in %s of %s (-want +got):\n%s", when, container, pod.Name, diff)
	}
}

func TestContainerFailureRestartsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	victims := s.targets(1)
	before := s.snapshots(victims)

	d := s.injected(s.create("kill", "{selector: {app: target}, count: 1, duration: 5m, maxRuns: 2, containerFailure: {forced: true, interval: 5s}}"))
	eventually(t, func() string {
		victims[0] = s.running(victims[0].Name)
		// A restart may be counted before the status has the container's end.
		if status := victims[0].Status.ContainerStatuses[0]; status.RestartCount < 2 || status.LastTerminationState.Terminated == nil {
			return fmt.Sprintf("the container did not end and start again, twice: %v", status)
		}
		return ""
	})
	if code := victims[0].Status.ContainerStatuses[0].LastTerminationState.Terminated.ExitCode; code != 137 {
		t.Errorf("the container ended with exit code %d, want 137: SIGKILL", code)
	}
	s.delete(d)
	s.gone(d)
	victims[0] = s.running(victims[0].Name)
	s.wantSame(before, s.snapshots(victims))
}

// TestDNSDisruptionIsFeltAndTakenBack falsifies names for the targets alone. A
// name of the cluster without a record resolves as before, and afterwards all
// names do.
func TestDNSDisruptionIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2)
	victims, other := pods[:1], pods[1]
	s.label(other, "client")
	const service, falsely = "kubernetes.default", "192.0.2.77"
	truth := s.lookup(other, service)
	s.wantAnswer(victims[0], "before", service, truth)
	before := s.snapshots(victims)

	d := s.injected(s.create("names", "{selector: {app: target}, count: 1, duration: 5m, dns: {records: ["+
		"{hostname: "+service+".svc.cluster.local, record: {type: A, value: "+falsely+"}}, "+
		"{hostname: gone.example.com, record: {type: A, value: NXDOMAIN}}, {hostname: gone.example.com, record: {type: AAAA, value: NXDOMAIN}}, "+
		"{hostname: made-up, record: {type: A, value: "+falsely+"}}]}}"))
	for name, want := range map[string]string{
		service: falsely, service + ".svc.cluster.local": falsely, "made-up": falsely,
		"gone.example.com": "no such host", "kube-dns.kube-system": s.lookup(other, "kube-dns.kube-system"),
	} {
		s.wantAnswer(victims[0], "during", name, want)
	}
	s.wantAnswer(other, "of another pod", service, truth)

	s.delete(d)
	s.gone(d)
	s.wantAnswer(victims[0], "after", service, truth)
	s.wantSame(before, s.snapshots(victims))
}

// lookup is a pod's answer about a name: addresses, or why there are none.
func (s *space) lookup(pod corev1.Pod, name string) string {
	s.t.Helper()
	var answer struct {
		Addresses []string
		Error     string
	}
	if err := s.exec(s.t.Context(), &answer, s.name, pod.Name, "/target", "lookup", "--timeout", "20s", name); err != nil {
		s.t.Fatal(err)
	}
	return strings.Join(answer.Addresses, " ") + answer.Error
}

func (s *space) wantAnswer(pod corev1.Pod, when, name, want string) {
	s.t.Helper()
	if got := s.lookup(pod, name); !strings.Contains(got, want) || want == "" {
		s.t.Errorf("%s: %s is told %q about %s, want %q", when, pod.Name, got, name, want)
	}
}

// Several kinds at once on the same target are taken back together.
func TestSeveralKindsOnOneTarget(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2, guaranteed)
	victim, client := pods[:1], pods[1]
	s.label(client, "client")
	before := s.snapshots(victim)
	d := s.injected(s.create("both", "{selector: {app: target}, count: 1, duration: 5m, cpuPressure: {count: 50%}, network: {drop: 100, hosts: [{port: 9090, flow: ingress}]}}"))
	s.wantCores(victim[0], "during", 0.1, 0.36)
	s.wantLoss(client, victim[0], "during", 100, 100)
	s.delete(d)
	s.gone(d)
	s.wantSame(before, s.snapshots(victim))
}

// TestNodeLevel disrupts a node itself: here, only its way to an unused address.
// rule 12
func TestNodeLevel(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	node := s.hosts[1]
	var before, during, after map[string]string
	s.probe(t, &before, node, "snapshot")
	d := s.injected(s.create("node-drop", "{level: node, selector: {kubernetes.io/hostname: "+node+"}, count: 1, duration: 5m, network: {drop: 100, hosts: [{host: 192.0.2.1}]}}"))
	if got := names(d); len(got) != 1 || got[0] != node {
		t.Errorf("targets = %v, want the node %s", got, node)
	}
	pods := s.chaosPods(t, d)
	if len(pods) != 1 || pods[0].Spec.NodeName != node { // rule 24
		t.Errorf("chaos pods = %d, want one on %s", len(pods), node)
	}
	s.probe(t, &during, node, "snapshot")
	if cmp.Equal(before, during) {
		t.Error("nothing on the node's links shows a disruption")
	}
	s.delete(d)
	s.gone(d)
	s.probe(t, &after, node, "snapshot")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the node is not as it was (-before +after):\n%s", diff)
	}
}

// label takes a pod out of the targets.
func (s *space) label(pod corev1.Pod, app string) {
	s.t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"app":%q}}}`, app)
	if _, err := s.kube.CoreV1().Pods(s.name).Patch(s.t.Context(), pod.Name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// wantLoss sends 200 datagrams from one pod to another.
func (s *space) wantLoss(from, to corev1.Pod, when string, least, most float64) {
	s.t.Helper()
	s.wantLossOf("", from, to, when, least, most)
}

// wantLossOf has a container of a pod that has several send them.
func (s *space) wantLossOf(container string, from, to corev1.Pod, when string, least, most float64) {
	s.t.Helper()
	var result struct{ Sent, Received int }
	// On a busy machine an answer may be late without being lost.
	err := s.execIn(s.t.Context(), &result, s.name, from.Name, container, "/target", "ping", "--udp", to.Status.PodIP+":9090",
		"--sockets", "10", "--count", "20", "--timeout", "1500ms", "--interval", "2ms")
	if err != nil {
		s.t.Fatal(err)
	}
	lost := 100 * float64(result.Sent-result.Received) / float64(max(result.Sent, 1))
	s.t.Logf("%s: %.0f %% of %d packets to %s lost", when, lost, result.Sent, to.Name)
	if lost < least || lost > most || result.Sent == 0 {
		s.t.Errorf("%s: %.1f %% of %d packets to %s lost, want %.0f to %.0f %%", when, lost, result.Sent, to.Name, least, most)
	}
}

// guaranteed gives a target what it may take, also on a busy node.
func guaranteed(pod *corev1.Pod) {
	pod.Spec.Containers[0].Resources.Requests = pod.Spec.Containers[0].Resources.Limits
}

// wantCores measures what a target's cgroup takes, until it is what it should
// be: other programs of the machine may have the processors for a while.
func (s *space) wantCores(pod corev1.Pod, when string, least, most float64) {
	s.t.Helper()
	eventually(s.t, func() string {
		var result struct{ Cores float64 }
		s.probe(s.t, &result, pod.Spec.NodeName, "cpu", "--container", containerID(pod), "--for", "2s")
		s.t.Logf("%s: %s takes %.2f cores", when, pod.Name, result.Cores)
		if result.Cores < least || result.Cores > most {
			return fmt.Sprintf("%s: %s takes %.2f cores, want %.2f to %.2f", when, pod.Name, result.Cores, least, most)
		}
		return ""
	})
}

// wantMemory looks how much of a target's limit is in use, in percent, until it is
// what it should be.
func (s *space) wantMemory(pod corev1.Pod, when string, least, most float64) {
	s.t.Helper()
	eventually(s.t, func() string {
		var result struct{ Used, Limit float64 }
		s.probe(s.t, &result, pod.Spec.NodeName, "memory", "--container", containerID(pod))
		percent := 100 * result.Used / result.Limit
		s.t.Logf("%s: %s has %.1f%% of %.0f bytes in use", when, pod.Name, percent, result.Limit)
		if percent < least || percent > most {
			return fmt.Sprintf("%s: %s has %.1f%% of its memory in use, want %.0f to %.0f", when, pod.Name, percent, least, most)
		}
		return ""
	})
}

// awaitSpeed waits until a target writes as fast as it should: it reports the
// mean of some seconds, which takes as long to show a change.
func (s *space) awaitSpeed(pod corev1.Pod, when string, least, most int64) {
	s.t.Helper()
	var answer struct{ Body string }
	var stats struct {
		Write struct {
			BytesPerSecond int64
			Error          string
		}
	}
	eventually(s.t, func() string {
		if err := s.exec(s.t.Context(), &answer, s.name, pod.Name, "/target", "get", "http://127.0.0.1:8080/stats"); err != nil {
			return err.Error()
		}
		decode(s.t, answer.Body, &stats)
		if stats.Write.BytesPerSecond < least || stats.Write.BytesPerSecond > most || stats.Write.Error != "" {
			return fmt.Sprintf("%s: %s writes %d bytes a second (error %q), want %d to %d", when, pod.Name, stats.Write.BytesPerSecond, stats.Write.Error, least, most)
		}
		return ""
	})
	s.t.Logf("%s: %s writes %d bytes a second", when, pod.Name, stats.Write.BytesPerSecond)
}

// snapshots are the settings of targets, by name.
func (s *space) snapshots(pods []corev1.Pod) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for _, pod := range pods {
		var found map[string]string
		s.probe(s.t, &found, pod.Spec.NodeName, "snapshot", "--container", containerID(pod))
		if len(found) < 10 {
			s.t.Fatalf("the probe saw only %v of %s: that would prove nothing", found, pod.Name)
		}
		for key, value := range maps.All(found) {
			all[pod.Name+" "+key] = value
		}
	}
	return all
}

func (s *space) wantSame(before, after map[string]string) {
	s.t.Helper()
	if diff := cmp.Diff(before, after); diff != "" {
		s.t.Errorf("the targets are not as they were (-before +after):\n%s", diff)
	}
}

func TestGRPCIsFeltAndTakenBack(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	pods := s.targets(2, func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Image, pod.Spec.Containers[0].Args = probeImage, []string{"grpc"}
	})
	victim, client := pods[0], pods[1]
	s.label(client, "client")
	answers := func(count int) map[string]int {
		codes := map[string]int{}
		if err := s.exec(t.Context(), &codes, s.name, client.Name, "/probe", "call", "--to", victim.Status.PodIP+":50051", "--count", fmt.Sprint(count)); err != nil {
			t.Fatal(err)
		}
		return codes
	}
	eventually(t, func() string {
		if codes := answers(1); codes["OK"] != 1 {
			return fmt.Sprintf("the application answers %v", codes)
		}
		return ""
	})

	d := s.injected(s.create("refuse", `{selector: {app: target}, count: 1, duration: 5m, grpc: {port: 50051, endpoints: [
		{endpoint: /grpc.health.v1.Health/Check, error: UNAVAILABLE, queryPercent: 30},
		{endpoint: /grpc.health.v1.Health/Check, error: ABORTED, queryPercent: 10}]}}`))
	// 1,000 calls: 30 and 10 %, give or take 1.5 and 1.
	during := answers(1000)
	for code, want := range map[string]int{"Unavailable": 300, "Aborted": 100, "OK": 600} {
		if got := during[code]; got < want-80 || got > want+80 {
			t.Errorf("%d of 1000 calls were answered %s, want %d, give or take 80: %v", got, code, want, during)
		}
	}
	s.await(d, "its effect is proven", func(d *v1beta1.Disruption) bool {
		return condition(d, v1beta1.ConditionEffectVerified).Status == metav1.ConditionTrue
	})
	s.delete(d)
	s.gone(d)
	if after := answers(100); after["OK"] != 100 {
		t.Errorf("after: %v, want 100 times OK", after)
	}
}
