package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestCreateChaosPods(t *testing.T) {
	c := newCluster(t)
	pods := c.MakeTargets(2, nil)
	ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) {
		all(spec)
		spec.Network = &v1beta1.NetworkDisruption{Drop: 40}
	})
	// The retry after a lost answer creates no other pods.
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}})
	chaos := c.ChaosPodsOf(ref)
	if len(chaos) != 4 { // rule 22
		t.Fatalf("%d chaos pods, want 2 targets x 2 kinds", len(chaos))
	}
	for _, pod := range chaos {
		target := pods[slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == chaospod.TargetUID(&pod) })]
		if pod.Spec.NodeName != target.Spec.NodeName { // rule 24
			t.Errorf("chaos pod is on %s, its target on %s", pod.Spec.NodeName, target.Spec.NodeName)
		}
		if pod.Namespace == target.Namespace || pod.Namespace != c.Namespace { // rule 25
			t.Errorf("chaos pod is in namespace %s", pod.Namespace)
		}
		owner := metav1.GetControllerOf(&pod) // kubectl drain and the cluster autoscaler need it
		if owner == nil || owner.Kind != "ConfigMap" || pod.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] != "true" {
			t.Errorf("chaos pod %s has controller %v and annotations %v: it would keep its node from being drained", pod.Name, owner, pod.Annotations)
		} else if record, err := c.Kube.CoreV1().ConfigMaps(pod.Namespace).Get(t.Context(), owner.Name, metav1.GetOptions{}); err != nil || record.UID != owner.UID {
			t.Errorf("chaos pod %s is owned by %s (%s), which is not there: %v; it would be deleted as garbage", pod.Name, owner.Name, owner.UID, err)
		}
		if !slices.Contains(pod.Finalizers, v1beta1.ChaosPodFinalizer) { // rule 26
			t.Error("chaos pod without our finalizer")
		}
		container := pod.Spec.Containers[0]
		injection := v1beta1.Injection{}
		c.Must(json.Unmarshal([]byte(container.Env[0].Value), &injection))
		if container.Image != "squall:test" || container.Args[0] != string(injection.Kind) || injection.Target.UID != target.UID ||
			injection.Target.Containers[0].ID != "abc" { // rule 23
			t.Errorf("chaos pod runs %s %v with %+v", container.Image, container.Args, injection)
		}
		if pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Error("chaos pod has credentials")
		}
	}
	for _, pod := range c.ChaosPodsOf(ref) {
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	do[inject.InjectionProgress](c, c.AwaitInjection, inject.AwaitInput{Disruption: ref, Announce: []int{0}})
	for _, pod := range pods {
		recorded := slices.ContainsFunc(c.EventsOf("Disrupted"), func(e corev1.Event) bool { return e.InvolvedObject.UID == pod.UID })
		if !recorded { // rule 21
			t.Errorf("no event on target %s", pod.Name)
		}
	}
	if events := c.EventsOf("ChaosPodCreated"); len(events) != 1 || !strings.Contains(events[0].Message, "4 chaos pods") {
		t.Errorf("events = %+v, want one that counts 4", events)
	}
}

func TestRefusedChaosPodsAreReported(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	quota := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "tiny"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}}}
	_, err := c.Kube.CoreV1().LimitRanges(c.Namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	c.Must(err)
	c.Eventually("the limit range is enforced", func() bool {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Mi")}}}}}}
		_, err := c.Kube.CoreV1().Pods(c.Namespace).Create(t.Context(), probe, metav1.CreateOptions{DryRun: []string{"All"}})
		return err != nil
	})
	ref := c.started("calm", nil)
	if len(c.EventsOf("CreateFailed")) != 1 {
		t.Error("want one CreateFailed event")
	}
	c.WantCondition(ref, v1beta1.ConditionInjected, metav1.ConditionFalse, "memory")
}

var cannotPull = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such image"}}

func TestAwaitInjection(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	ref := c.started("calm", nil)
	done := make(chan inject.InjectionProgress, 1)
	go func() {
		value, err := c.env.ExecuteActivity(c.AwaitInjection, inject.AwaitInput{Disruption: ref, Announce: []int{0}})
		var injection inject.InjectionProgress
		if err == nil {
			err = value.Get(&injection)
		}
		if err != nil {
			t.Error(err)
		}
		done <- injection
	}()
	chaos := c.ChaosPodsOf(ref)
	c.Becomes(chaos[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	// rule 29
	c.Eventually("PartiallyInjected", func() bool { return c.Get(ref).Status.InjectionStatus == v1beta1.PartiallyInjected })
	// rule 21
	c.Eventually("no chaos pod changes, and both targets have their events", func() bool {
		return len(c.EventsOf("Disrupted")) == 1 && len(c.EventsOf("Chosen")) == 1
	})
	c.Becomes(chaos[1], corev1.PodPending, cannotPull, corev1.ConditionFalse)
	c.Eventually("target and disruption have an event why nothing is injected", func() bool {
		target, about := chaos[1].Labels[v1beta1.LabelTarget], map[string]bool{}
		for _, event := range c.EventsOf("InjectionFailed") {
			about[event.InvolvedObject.Name] = strings.Contains(event.Message, "no such image") && strings.Contains(event.InvolvedObject.Name+event.Message, target)
		}
		return len(about) == 2 && about[target] && about[ref.Name]
	})
	if status := c.Get(ref).Status; status.Targets != "1/2" || status.Phase != v1beta1.PhaseInjecting {
		t.Errorf("status = %+v, want 1/2 Injecting", status)
	}
	c.Becomes(chaos[1], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	// rule 30
	c.Eventually("Injected", func() bool { return c.Get(ref).Status.InjectionStatus == v1beta1.Injected })
	c.Eventually("both are disrupted, and the disruption says so", func() bool {
		return len(c.EventsOf("Disrupted")) == 2 && len(c.EventsOf("Injected")) == 1
	})
	if injection := <-done; injection.Injected != 2 {
		t.Errorf("injection = %+v", injection)
	}
	status := c.Get(ref).Status
	if status.Targets != "2/2" || status.InjectedTime == nil || status.Phase != v1beta1.PhaseHolding {
		t.Errorf("status = %+v, want 2/2 Holding", status)
	}
	c.WantCondition(ref, v1beta1.ConditionInjected, metav1.ConditionTrue, "all 2 targets")
}

// watchInjection runs AwaitInjection in the background and sends its error.
func (c *testCluster) watchInjection(in inject.AwaitInput) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := c.env.ExecuteActivity(c.AwaitInjection, in)
		ended <- err
	}()
	return ended
}

// A kubelet that does not answer does not delay the status of other targets.
func TestAwaitInjectionWaitsForNoLog(t *testing.T) {
	c := newCluster(t)
	release := make(chan struct{})
	asked := make(chan struct{}, 100)
	c.through(func(r *http.Request) (*http.Response, error) {
		if path.Base(r.URL.Path) != "log" {
			return nil, nil
		}
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-release:
		}
		return nil, errors.New("the kubelet does not answer")
	})
	c.MakeTargets(2, nil)
	ref := c.started("calm", nil)
	chaos := c.ChaosPodsOf(ref)
	c.Becomes(chaos[0], corev1.PodRunning, injectorRuns, corev1.ConditionFalse)
	ended := c.watchInjection(inject.AwaitInput{Disruption: ref, Announce: []int{0}})
	<-asked
	c.Becomes(chaos[1], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	c.Eventually("PartiallyInjected", func() bool { return c.Get(ref).Status.InjectionStatus == v1beta1.PartiallyInjected })
	close(release)
	c.Becomes(chaos[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	c.Must(<-ended)
}

// One write shows the first choice of targets and the first injections. A target that is
// not injected yet does not delay the write.
func TestAwaitInjectionShowsTheFirstChoice(t *testing.T) {
	for _, ready := range []bool{true, false} {
		t.Run(fmt.Sprintf("everything is ready: %t", ready), func(t *testing.T) {
			c := newCluster(t)
			c.MakeTargets(2, nil)
			ref := c.Disruption("calm", nil)
			do[prepare.Plan](c, c.Prepare, ref)
			chosen := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, ShownLater: true})
			if s := c.Get(ref).Status; s.StartTime != nil || chosen.Selected != 2 {
				t.Fatalf("%d are chosen, and status says %+v; want 2, and nothing", chosen.Selected, s)
			}
			do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref}})
			pods := c.ChaosPodsOf(ref)
			if ready {
				for _, pod := range pods {
					c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
				}
				c.Eventually("the watch sees them", func() bool { return c.ChaosPods.Ready(ref) == 2 })
			}
			var writes atomic.Int32
			counted := apiserver.Start(t)
			counted.Wrap(func(server http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/status") {
						writes.Add(1)
					}
					return server.RoundTrip(r)
				})
			})
			var err error
			c.Activities.Disruptions, err = status.NewDisruptions(counted)
			c.Must(err)
			ended := c.watchInjection(inject.AwaitInput{Disruption: ref, Announce: []int{0}, Chosen: &chosen})
			if !ready {
				c.Eventually("the choice is told", func() bool { return c.Get(ref).Status.Targets == "0/2" })
				for _, pod := range pods {
					c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
				}
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			s := c.Get(ref).Status
			if s.Targets != "2/2" || s.Phase != v1beta1.PhaseHolding || s.DesiredTargetsCount != 2 || s.RunCount != 1 || s.SpecHash == "" || len(s.TargetInjections) != 2 {
				t.Errorf("status = %+v, want the plan, the choice and 2/2", s)
			}
			c.WantCondition(ref, v1beta1.ConditionTargetsSelected, metav1.ConditionTrue, "2 of 2")
			if n := writes.Load(); ready && n != 1 {
				t.Errorf("%d writes of status, want one", n)
			}
		})
	}
}

// Slow events can take longer than the calm that ends a watch. A change that comes
// meanwhile counts.
func TestSlowEventsAreNoStandstill(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(14, nil)
	ref := c.started("calm", all)
	var chosen, recorded atomic.Int32
	recording := make(chan struct{})
	c.through(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/events") {
			return nil, nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		switch {
		case err != nil:
			return nil, err
		case bytes.Contains(body, []byte("Chosen")):
			chosen.Add(1)
		case bytes.Contains(body, []byte("Disrupted")):
			if recorded.Add(1) == 1 {
				close(recording)
			}
			// four at a time: nine seconds, after two of calm
			if recorded.Load() <= 12 {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
		}
		return nil, nil
	})
	chaos := c.ChaosPodsOf(ref)
	for _, pod := range chaos[:12] {
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	done := c.watchInjection(inject.AwaitInput{Disruption: ref, Announce: []int{0}})
	<-recording
	c.Becomes(chaos[12], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	c.Eventually("the one that was late is told", func() bool { return len(c.EventsOf("Disrupted")) == 1 })
	if n := chosen.Load(); n > 0 {
		t.Errorf("%d targets are told that nothing moves, while something did", n)
	}
	c.Becomes(chaos[13], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	c.Must(<-done)
}

func TestPrepare(t *testing.T) {
	c := newCluster(t)
	later := c.Disruption("later", func(spec *v1beta1.DisruptionSpec) {
		spec.Triggers = &v1beta1.DisruptionTriggers{CreatePods: v1beta1.DisruptionTrigger{NotBefore: metav1.NewTime(time.Now().Add(time.Minute))}}
	})
	ref := c.Disruption("calm", nil)
	for _, ref := range []v1beta1.DisruptionRef{later, ref} {
		plan := do[prepare.Plan](c, c.Prepare, ref)
		if ref != later { // the choice of targets follows at once, and shows the plan
			do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref})
		}
		status := c.Get(ref).Status
		// rule 7
		if plan.SpecHash == "" || status.SpecHash != plan.SpecHash || status.ObservedGeneration != 1 {
			t.Errorf("hash in status = %q, in plan %q, status %+v", status.SpecHash, plan.SpecHash, status)
		}
		if status.ExpiryTime == nil || status.StartTime == nil || status.Kinds != "cpu-pressure" || status.InjectionStatus != v1beta1.NotInjected || status.Workflow == nil {
			t.Errorf("status = %+v", status)
		}
	}
	t.Run("a spec edited later is told once an edit and not carried out", func(t *testing.T) {
		live := c.Get(ref)
		live.Labels = map[string]string{"team": "a"}
		c.Must(c.Plain.Put().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Body(live).Do(t.Context()).Error())
		do[any](c, c.WarnSpecChanged, ref)
		if n := len(c.EventsOf("SpecChanged")); n != 0 { // rule 10
			t.Errorf("%d SpecChanged events after a change of labels", n)
		}
		live = c.Get(ref)
		live.Spec.DryRun = true
		c.Must(c.Plain.Put().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Body(live).Do(t.Context()).Error())
		do[any](c, c.WarnSpecChanged, ref)
		do[any](c, c.WarnSpecChanged, ref)
		if n := len(c.EventsOf("SpecChanged")); n != 1 { // rule 9
			t.Errorf("%d SpecChanged events, want 1", n)
		}
		// rule 8
		if frozen, err := c.Targets.LoadSpec(t.Context(), ref); err != nil || frozen.Spec.DryRun {
			t.Errorf("the edit is carried out: %+v, %v", frozen, err)
		}
	})
	t.Run("a run after a terminated one only cleans", func(t *testing.T) {
		_, err := c.Targets.StoreSpec(t.Context(), c.Get(ref), "another run", nil)
		c.Must(err)
		record, err := c.Kube.CoreV1().ConfigMaps(c.Namespace).Get(t.Context(), "squall-"+string(ref.UID), metav1.GetOptions{})
		c.Must(err)
		record.Data[targets.KeyRun] = "a terminated run"
		_, err = c.Kube.CoreV1().ConfigMaps(c.Namespace).Update(t.Context(), record, metav1.UpdateOptions{})
		c.Must(err)
		// rule T1
		if plan := do[prepare.Plan](c, c.Prepare, ref); !strings.Contains(plan.CleanOnly, "earlier workflow") {
			t.Errorf("plan = %+v, want clean only", plan)
		}
	})
	t.Run("a disruption of another UID is not ours", func(t *testing.T) {
		other := ref
		other.UID = "other"
		if plan := do[prepare.Plan](c, c.Prepare, other); !strings.Contains(plan.CleanOnly, "gone") {
			t.Errorf("plan = %+v, want clean only", plan)
		}
	})
}

// While targets come and go, a watch goes on once all is injected, and follows those that
// are chosen meanwhile.
func TestAWatchFollowsTargetsChosenMeanwhile(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	ref := c.started("churn", all)
	ready := func() {
		for _, pod := range c.ChaosPodsOf(ref) {
			c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
		}
	}
	ready()
	done := make(chan inject.InjectionProgress, 1)
	go func() {
		var seen inject.InjectionProgress
		value, err := c.env.ExecuteActivity(c.AwaitInjection, inject.AwaitInput{Disruption: ref, Announce: []int{0}, Linger: 5 * time.Second})
		if err == nil {
			err = value.Get(&seen)
		}
		if err != nil {
			t.Error(err)
		}
		done <- seen
	}()
	shows := func(targets string) {
		t.Helper()
		c.Eventually("status shows "+targets, func() bool {
			s := c.Get(ref).Status
			return s.Targets == targets && s.InjectionStatus == v1beta1.Injected
		})
	}
	shows("1/1")
	c.MakeTargets(1, nil)
	selected := do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1, Fill: true})
	do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Run: selected.Run})
	ready()
	shows("2/2")
	c.Eventually("both targets have their event", func() bool { return len(c.EventsOf("Disrupted")) == 2 })
	select {
	case seen := <-done:
		if seen.Total != 2 || seen.Run != 1 {
			t.Errorf("the watch has seen %+v, want two targets, and those of the second choice", seen)
		}
	case <-time.After(30 * time.Second):
		t.Error("the watch goes on though no target was chosen for 5 s")
	}
}
