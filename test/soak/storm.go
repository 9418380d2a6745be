package main

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
)

// progressGap is how often the progress is printed.
const progressGap = 10 * time.Second

// soak is one run.
type soak struct {
	*cluster
	screen       *screen
	view         *view
	space        string // namespace of the targets
	before       map[string]string
	stopWatching context.CancelFunc
	made         atomic.Int64

	mu      sync.Mutex
	kills   []*killed
	away    string // the node that is frozen or cut off; at most one is
	healing sync.WaitGroup
}

// killed is a kill that was carried out.
type killed struct {
	part, what string
	storm      bool
	at         time.Time
	// journals is true of an injector that had something on its node.
	journals bool
	// healed is how long it took: until the part works again, or, of an injector
	// with a journal, until the node has none. 0 means not yet.
	healed time.Duration
}

// soak runs both parts: injectors alone, then everything.
func (s *soak) soak(ctx context.Context) {
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	s.stopWatching = stopWatching
	go s.watch(watching)
	go s.progress(watching)
	bound, cancel := context.WithTimeout(ctx, s.bound)
	defer cancel()
	if alone := s.disruptions * s.alone / 100; alone > 0 {
		s.screen.chapter("only injectors are killed, during %d disruptions", alone)
		share, cancel := context.WithTimeout(bound, s.bound/2)
		defer cancel()
		s.phase(share, alone, false)
		s.waitHealed(bound, time.Minute)
	}
	if bound.Err() == nil && s.alone < 100 {
		s.screen.chapter("the storm: everything is killed, until %d disruptions have begun", s.disruptions)
		s.phase(bound, s.disruptions, true)
	}
	s.screen.chapter("no more kills; everything may heal, for %s", s.heal)
}

// phase lets disruptions come and go, and kills until enough have begun.
func (s *soak) phase(ctx context.Context, wanted int, storm bool) {
	killing, stop := context.WithCancel(ctx)
	var killer sync.WaitGroup
	killer.Go(func() { s.killAll(killing, storm) })
	s.trials(ctx, wanted, storm, stop)
	killer.Wait()
}

// killAll kills until the context ends.
func (s *soak) killAll(ctx context.Context, everything bool) {
	for n := 0; ; n++ {
		b := storm(s.seed, n, s.every)
		if !everything {
			b.part = injector
		}
		if promise.Pause(ctx, b.after) != nil {
			return
		}
		k, back := s.strike(ctx, b, everything)
		for printed := time.Now(); k == nil; { // none runs now
			if promise.Pause(ctx, lookGap) != nil {
				return
			}
			if time.Since(printed) > progressGap {
				printed = time.Now()
				s.screen.logf("no kills: no %s runs that could be killed", b.part)
			}
			k, back = s.strike(ctx, b, everything)
		}
		s.mu.Lock()
		s.kills = append(s.kills, k)
		s.mu.Unlock()
		s.healing.Go(func() { s.awaitBack(k, back) })
	}
}

// spared reports whether too few were killed yet for a meaningful run: in the
// storm each part once, before it a few injectors with something to clean.
func (s *soak) spared(storm bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cleans, missing := 0, len(parts)
	for _, part := range parts {
		if slices.ContainsFunc(s.kills, func(k *killed) bool { return k.part == part && k.storm }) {
			missing--
		}
	}
	for _, k := range s.kills {
		if k.journals && !k.storm {
			cleans++
		}
	}
	return storm && missing > 0 || !storm && cleans < fewestHeals
}

// strike kills one of the part and returns a check that it is healed; nil when
// none of it runs now.
func (s *soak) strike(ctx context.Context, b blow, everything bool) (k *killed, back func(context.Context) bool) {
	k = &killed{part: b.part, what: b.part, storm: everything, at: time.Now()} // before the kill: it may heal while the command ends
	there := slices.DeleteFunc(slices.Clone(s.nodes), func(n node) bool { return s.isAway(n.name) })
	n := there[b.choice%uint64(len(there))]
	var err error
	switch b.part {
	case nodeCrash, nodeFreeze, nodeCut:
		if len(there) < len(s.nodes) {
			return nil, nil // what is left of the cluster is to carry on
		}
		k.what = n.name + b.part[len("node"):]
		back, err = s.strikeNode(ctx, b, n)
	case temporal:
		back = s.temporalAnswers
		_, err = s.run(ctx, s.devcluster, "temporal", "--dir", s.dev, "crash")
	case apiserver:
		back = s.apiAnswers
		err = s.kill(ctx, apiserver)
	case kubelet:
		back = n.kubeletAnswers
		err = s.kill(ctx, kubelet, strconv.Itoa(n.number))
	case containerd:
		back = func(ctx context.Context) bool {
			first, err := s.first(ctx, n)
			return err == nil && dials("unix", filepath.Join("/proc", first, "root/run/containerd/containerd.sock"))(ctx)
		}
		err = s.kill(ctx, containerd, strconv.Itoa(n.number))
	default:
		var pod *corev1.Pod
		if pod = s.victim(b, everything); pod == nil {
			return nil, nil
		}
		n = s.node(pod.Spec.NodeName)
		k.what = b.part + " " + pod.Name
		back = s.replaced(*pod)
		if b.part == injector {
			prefix := journalPrefix(*pod)
			if k.journals, err = n.holds(prefix); err != nil {
				s.screen.logf("%v", err)
				return nil, nil
			}
			back = func(context.Context) bool { return n.healed(prefix) }
		}
		err = s.kill(ctx, b.part, strconv.Itoa(n.number), "--container", containerID(*pod))
	}
	if err != nil {
		return nil, nil // it is down from an earlier kill, or has just ended
	}
	return k, back
}

// strikeNode crashes a node, or has it frozen or cut off for a time.
func (s *soak) strikeNode(ctx context.Context, b blow, n node) (back func(context.Context) bool, err error) {
	if b.part == nodeCrash {
		before, err := s.first(ctx, n)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) bool {
			first, err := s.first(ctx, n)
			return err == nil && first != before && n.kubeletAnswers(ctx)
		}, s.hurt(ctx, "crash", n)
	}
	hurt, rejoin := "freeze", "thaw"
	if b.part == nodeCut {
		hurt, rejoin = "cut", "join"
	}
	if err := s.hurt(ctx, hurt, n); err != nil {
		return nil, err
	}
	s.setAway(n.name)
	s.healing.Go(func() {
		_ = promise.Pause(ctx, b.lasts)
		alive, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.heal)
		defer cancel()
		if err := promise.Persist(alive, func(ctx context.Context) error { return s.hurt(ctx, rejoin, n) }); err != nil {
			s.screen.logf("%s does not come back: %v", n.name, err)
		}
		s.setAway("")
	})
	return func(ctx context.Context) bool { return !s.isAway(n.name) && n.kubeletAnswers(ctx) }, nil
}

func (s *soak) setAway(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = node
}

func (s *soak) isAway(node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away == node
}

// victim is a pod that runs the part. While injectors alone are killed it is one
// with something to clean, if there is any: these kills show how soon that is
// clean.
func (s *soak) victim(b blow, everything bool) *corev1.Pod {
	of, label := &s.view.system, "squall-"+b.part
	if b.part == injector {
		of, label = &s.view.chaos, ""
	}
	running := s.view.pods(of, func(pod corev1.Pod) bool {
		return pod.Labels["app.kubernetes.io/name"] == label && !s.isAway(pod.Spec.NodeName) && containerID(pod) != "" && pod.Status.ContainerStatuses[0].State.Running != nil
	})
	holds := func(pod corev1.Pod) bool {
		held, err := s.node(pod.Spec.NodeName).holds(journalPrefix(pod))
		return err == nil && held
	}
	if !everything && slices.ContainsFunc(running, holds) {
		running = slices.DeleteFunc(running, func(pod corev1.Pod) bool { return !holds(pod) })
	}
	if len(running) == 0 {
		return nil
	}
	return &running[b.choice%uint64(len(running))]
}

// journalPrefix begins the name of the journal that the injector of a chaos pod keeps.
func journalPrefix(pod corev1.Pod) string {
	return pod.Labels[v1beta1.LabelDisruptionUID] + "_" + pod.Labels[v1beta1.LabelTargetUID] + "_" + pod.Labels[v1beta1.LabelDisruptionKind]
}

// containerID is that of a pod's only container; empty before it has one.
func containerID(pod corev1.Pod) string {
	if len(pod.Status.ContainerStatuses) == 0 {
		return ""
	}
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	return id
}

// awaitBack waits until what was killed is healed, at most as long as all of it may take.
func (s *soak) awaitBack(k *killed, back func(context.Context) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), s.bound+s.heal)
	defer cancel()
	for !back(ctx) {
		if promise.Pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k.healed = max(time.Since(k.at), 1)
}

// waitHealed waits until every kill so far is healed, for a time.
func (s *soak) waitHealed(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		s.healing.Wait()
	}()
	select {
	case <-ctx.Done():
	case <-healed:
	}
}

func (s *soak) temporalAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := s.temporal.CheckHealth(ctx, &temporalclient.CheckHealthRequest{})
	return err == nil
}

func (s *soak) apiAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

func dials(network, address string) func(context.Context) bool {
	return func(context.Context) bool {
		connection, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			return false
		}
		return connection.Close() == nil
	}
}

// replaced reports whether the pod runs another container that is ready, or is
// gone: then its deployment has started another pod.
func (s *soak) replaced(old corev1.Pod) func(context.Context) bool {
	return func(ctx context.Context) bool {
		if promise.Pause(ctx, lookGap) != nil {
			return false
		}
		pod, err := s.kube.CoreV1().Pods(old.Namespace).Get(ctx, old.Name, metav1.GetOptions{})
		if err != nil {
			return apierrors.IsNotFound(err)
		}
		return containerID(*pod) != containerID(old) && containerID(*pod) != "" && pod.Status.ContainerStatuses[0].Ready
	}
}

// progress prints every progressGap how many trials are done.
func (s *soak) progress(ctx context.Context) {
	for promise.Pause(ctx, progressGap) == nil {
		begun := s.view.count(func(t *trial) bool { return t.begun })
		ended := s.view.count(func(t *trial) bool { return t.begun && !t.ended.IsZero() })
		stuck := s.view.count(func(t *trial) bool { return t.stuck != "" && t.ended.IsZero() })
		s.mu.Lock()
		line := fmt.Sprintf("%d of %d begun, %d ended, %d stuck; %d killed", begun, s.disruptions, ended, stuck, len(s.kills))
		var down []string
		for _, k := range s.kills {
			if k.healed == 0 {
				down = append(down, k.what)
			}
		}
		s.mu.Unlock()
		if len(down) > 0 {
			line += ", not healed: " + strings.Join(down, ", ")
		}
		s.screen.logf("%s", line)
	}
}
