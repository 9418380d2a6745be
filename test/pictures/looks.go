package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// look measures once.
type look func(context.Context, *space) (reading, error)

func value(name string, v float64) reading { return reading{values: map[string]float64{name: v}} }

// echoed is a client's report about its datagrams.
type echoed struct {
	Sent, Received   int
	MeanMilliseconds float64
}

// ping has the client send datagrams to the target, by several sockets at once.
func (s *space) ping(ctx context.Context, sockets, count int, more ...string) (e echoed, err error) {
	err = s.Exec(ctx, &e, s.name, s.client.Name, "client", append([]string{"/target", "ping", "--udp", s.target.Status.PodIP + ":9090",
		"--sockets", fmt.Sprint(sockets), "--count", fmt.Sprint(count)}, more...)...)
	if err == nil && e.Sent == 0 {
		err = errors.New("no datagram was sent")
	}
	return e, err
}

// patient is how long an answer may take on a busy machine without being lost.
const patient = "1500ms"

// lost is the share of 150 datagrams that are not answered.
func lost(ctx context.Context, s *space) (reading, error) {
	e, err := s.ping(ctx, 150, 1, "--timeout", patient)
	return value("lost", 100*float64(e.Sent-e.Received)/float64(max(e.Sent, 1))), err
}

// late is how long answers take, in milliseconds.
func late(ctx context.Context, s *space) (reading, error) {
	e, err := s.ping(ctx, 1, 4, "--timeout", "10s")
	return value("late", e.MeanMilliseconds), err
}

// rate is how many bytes are answered in a second when each of 20 sockets sends the
// next datagram, 50 bytes with its headers, an eighth of a second after an answer. The
// first ones meet no queue: of eight that makes it 3 % too much.
func rate(ctx context.Context, s *space) (reading, error) {
	const sockets, bytes, pause = 20, 50, 125
	e, err := s.ping(ctx, sockets, 8, "--timeout", "10s", "--interval", fmt.Sprintf("%dms", pause))
	answered := float64(e.Received) / float64(max(e.Sent, 1))
	return value("rate", answered*sockets*bytes*1000/(pause+e.MeanMilliseconds)), err
}

// cores is what the target's cgroup takes.
func cores(ctx context.Context, s *space) (reading, error) {
	var took struct{ Cores float64 }
	err := s.ask(ctx, &took, "cpu", "--container", containerID(s.target), "--for", "800ms")
	return value("cores", took.Cores), err
}

// memory is what is charged to the target's cgroup, in percent of its limit.
func memory(ctx context.Context, s *space) (reading, error) {
	var m struct{ Used, Limit float64 }
	err := s.ask(ctx, &m, "memory", "--container", containerID(s.target))
	return value("memory", 100*m.Used/max(m.Limit, 1)), err
}

// written is what the target has written since it began, in MiB.
func written(ctx context.Context, s *space) (reading, error) {
	var answer struct{ Body string }
	if err := s.Exec(ctx, &answer, s.name, s.target.Name, "target", "/target", "get", "http://127.0.0.1:8080/stats"); err != nil {
		return reading{}, err
	}
	var stats struct{ Write struct{ Bytes int64 } }
	err := json.Unmarshal([]byte(answer.Body), &stats)
	return value("written", float64(stats.Write.Bytes)/(1<<20)), err
}

// opens is the share of a hundred opens that fail.
func opens(ctx context.Context, s *space) (reading, error) {
	var ends map[string]int
	err := s.Exec(ctx, &ends, s.name, s.target.Name, "target", "/target", "open", "--count", "100", "/data/file")
	for end := range ends {
		if end != "ok" && end != "no space left on device" {
			return reading{}, fmt.Errorf("an open ended with %q", end)
		}
	}
	return value("failed", float64(100-ends["ok"])), err
}

// names is the target's answer about the services.
func names(ctx context.Context, s *space) (reading, error) {
	all := reading{states: map[string]state{}}
	for _, name := range serviceNames {
		var answer struct {
			Addresses []string
			Error     string
		}
		if err := s.Exec(ctx, &answer, s.name, s.target.Name, "target", "/target", "lookup", name); err != nil {
			return reading{}, err
		}
		now := state{text: strings.Join(answer.Addresses, " ")}
		switch {
		case strings.Contains(answer.Error, "no such host"):
			now = state{"no such host", 1}
		case answer.Error != "":
			return reading{}, errors.New(answer.Error)
		case strings.HasPrefix(now.text, "192.0.2."):
			now.class = 1
		}
		all.states[name] = now
	}
	return all, nil
}

// calls is the share of 200 calls that fail, by their code.
func calls(ctx context.Context, s *space) (reading, error) {
	var codes map[string]int
	if err := s.Exec(ctx, &codes, s.name, s.client.Name, "client", "/probe", "call", "--to", s.target.Status.PodIP+":50051", "--count", "200"); err != nil {
		return reading{}, err
	}
	return reading{values: map[string]float64{"UNAVAILABLE": float64(codes["Unavailable"]) / 2, "RESOURCE_EXHAUSTED": float64(codes["ResourceExhausted"]) / 2}}, nil
}

// restarts is how often the target was started again, and the share of datagrams
// that it answers.
func restarts(ctx context.Context, s *space) (reading, error) {
	e, err := s.ping(ctx, 5, 1, "--timeout", patient)
	if err != nil {
		return reading{}, err
	}
	var pod corev1.Pod
	if err := s.api.Get(ctx, client.ObjectKeyFromObject(&s.target), &pod); err != nil {
		return reading{}, err
	}
	return reading{values: map[string]float64{"answered": 100 * float64(e.Received) / float64(e.Sent), "restarts": float64(pod.Status.ContainerStatuses[0].RestartCount)}}, nil
}

// reached is the share of datagrams that the target answers, and the API server's
// status of it and of its node. A pod that starts again has another address.
func reached(ctx context.Context, s *space) (reading, error) {
	var node corev1.Node
	err := errors.Join(s.api.Get(ctx, client.ObjectKeyFromObject(&s.target), &s.target), s.api.Get(ctx, client.ObjectKey{Name: s.own.Name}, &node))
	if err != nil {
		return reading{}, err
	}
	e, err := s.ping(ctx, 5, 1, "--timeout", patient)
	if err != nil {
		return reading{}, err
	}
	now := value("answered", 100*float64(e.Received)/float64(e.Sent))
	now.states = map[string]state{"node": readiness(kube.NodeReady(&node)), "target": readiness(podops.Ready(&s.target))}
	return now, nil
}

func readiness(ready bool) state {
	if ready {
		return state{"ready", 0}
	}
	return state{"not ready", 1}
}

// cameBack is nil when the target's node was booted once more and is ready.
func cameBack(ctx context.Context, s *space) error {
	var node corev1.Node
	var target corev1.Pod
	if err := errors.Join(s.api.Get(ctx, client.ObjectKey{Name: s.own.Name}, &node), s.api.Get(ctx, client.ObjectKeyFromObject(&s.target), &target)); err != nil {
		return err
	}
	if node.Status.NodeInfo.BootID == s.own.Status.NodeInfo.BootID || !kube.NodeReady(&node) {
		return fmt.Errorf("node %s has not come back", node.Name)
	}
	if statuses := target.Status.ContainerStatuses; len(statuses) == 0 || statuses[0].State.Running == nil || statuses[0].RestartCount == 0 {
		return fmt.Errorf("pod %s was not started again: %v", target.Name, statuses)
	}
	return nil
}

// pods is where the pods of the Deployment are, and which nodes take new ones.
func pods(ctx context.Context, s *space) (reading, error) {
	var all corev1.PodList
	var nodes corev1.NodeList
	if err := errors.Join(s.api.List(ctx, &all, client.InNamespace(s.name)), s.api.List(ctx, &nodes)); err != nil {
		return reading{}, err
	}
	now := reading{states: map[string]state{}}
	number := map[string]string{}
	for i, node := range s.nodes {
		number[node] = fmt.Sprintf("node %d", i+1)
	}
	for _, node := range nodes.Items {
		is := state{"takes pods", 0}
		if node.Spec.Unschedulable {
			is = state{"cordoned", 1}
		}
		now.states[number[node.Name]] = is
	}
	for _, pod := range all.Items {
		is := state{"runs on " + number[pod.Spec.NodeName], 0}
		switch {
		case pod.DeletionTimestamp != nil:
			is = state{"ends", 1}
		case pod.Status.Phase != corev1.PodRunning:
			is = state{"starts", 2}
		}
		now.states[s.called(pod.UID)] = is
	}
	return now, nil
}

// called names pods by the order in which they were seen.
func (s *space) called(pod types.UID) string {
	if s.seen[pod] == "" {
		s.seen[pod] = fmt.Sprintf("pod %d", len(s.seen)+1)
	}
	return s.seen[pod]
}
