package activities

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apicluster"
)

// logs are the logs of chaos pods, by name. They replace the kubelets' answers.
type logs struct {
	mu    sync.Mutex
	texts map[string]string
	asked int
	away  bool
}

// withLogs makes the activities read these logs.
func (c *testCluster) withLogs() *logs {
	l := &logs{texts: map[string]string{}}
	c.through(func(r *http.Request) (*http.Response, error) {
		if path.Base(r.URL.Path) != "log" {
			return nil, nil
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asked++
		if l.away {
			return &http.Response{StatusCode: http.StatusGatewayTimeout, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
		}
		body := l.texts[path.Base(path.Dir(r.URL.Path))]
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(bytes.NewBufferString(body)), Request: r}, nil
	})
	return l
}

// turn logs a change of the effect, at this number of seconds after the epoch.
func (l *logs) turn(pod string, state v1beta1.EffectState, evidence string, since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, _ := json.Marshal(v1beta1.EffectLine{Message: v1beta1.MessageEffect, State: state, Evidence: evidence, Since: metav1.Unix(since, 0)})
	l.texts[pod] += fmt.Sprintf("%s\n{\"msg\":\"figures\",\"state\":\"Lost\"}\nno JSON\n", line)
}

// looks runs AwaitEffects once, and returns the delay until the next attempt, 0 for none.
func (c *testCluster) looks(ref v1beta1.DisruptionRef) time.Duration {
	c.Helper()
	_, err := c.env.ExecuteActivity(c.AwaitEffects, ref)
	var failed *temporal.ApplicationError
	if errors.As(err, &failed) && failed.Type() == "NotProven" {
		return failed.NextRetryDelay()
	}
	c.Must(err)
	return 0
}

// wantEffects wants these states of the effects, in the order of the chaos pods.
func (c *testCluster) wantEffects(ref v1beta1.DisruptionRef, condition metav1.ConditionStatus, reason string, pods []corev1.Pod, want ...v1beta1.EffectState) {
	c.Helper()
	status := c.Get(ref).Status
	for i, pod := range pods {
		var got v1beta1.EffectState
		for _, kinds := range status.TargetInjections {
			for _, injection := range kinds {
				if injection.InjectorPodName == pod.Name && injection.Effect != nil {
					got = injection.Effect.State
				}
			}
		}
		if got != want[i] {
			c.Errorf("effect of %s = %q, want %q", pod.Name, got, want[i])
		}
	}
	verified := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionEffectVerified)
	if verified == nil || verified.Status != condition || verified.Reason != reason {
		c.Errorf("condition EffectVerified = %+v, want %s %s", verified, condition, reason)
	}
}

// effectGap is the shortest pause between two attempts of AwaitEffects.
const effectGap = 2 * time.Second

// rules E1, E4, E5
func TestEffects(t *testing.T) {
	const proven, nothing, lost = v1beta1.EffectProven, v1beta1.EffectNothingMatchedYet, v1beta1.EffectLost
	c := newCluster(t)
	chaosLogs := c.withLogs()
	c.MakeTargets(2, nil)
	ref := c.started("calm", nil)
	pods := c.ChaosPodsOf(ref)
	for _, pod := range pods {
		c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	}
	chaosLogs.turn(pods[0].Name, proven, "12 packets dropped", 100)
	chaosLogs.turn(pods[1].Name, nothing, "no packet has matched", 100)
	if p := do[inject.InjectionProgress](c, c.AwaitInjection, inject.AwaitInput{Disruption: ref, Announce: []int{0}}); p.Unproven != 1 || p.Injected != 2 {
		t.Errorf("progress = %+v, want both injected and one unproven", p)
	}
	c.wantEffects(ref, metav1.ConditionUnknown, "NothingMatchedYet", pods, proven, nothing)

	written := c.Get(ref).ResourceVersion
	if pause := c.looks(ref); pause != effectGap {
		t.Errorf("the next look is in %s, want %s", pause, effectGap)
	}
	if now := c.Get(ref).ResourceVersion; now != written { // rule 3
		t.Error("status was written though nothing turned")
	}
	chaosLogs.turn(pods[1].Name, proven, "1 packet dropped", 110)
	if pause := c.looks(ref); pause != 0 {
		t.Errorf("the next look is in %s, want none: all act", pause)
	}
	c.wantEffects(ref, metav1.ConditionTrue, "Proven", pods, proven, proven)

	// An effect is lost and restored before AwaitEffects reads the log.
	chaosLogs.turn(pods[0].Name, lost, "no longer there: tcx program", 120)
	chaosLogs.turn(pods[0].Name, nothing, "no packet has matched", 121)
	c.Becomes(pods[0], corev1.PodRunning, injectorRuns, corev1.ConditionFalse)
	c.Eventually("it is seen not to be ready, and read", func() bool {
		c.looks(ref)
		return len(c.EventsOf("EffectLost")) == 1
	})
	c.wantEvent("EffectLost", pods[0].Name, "no longer there: tcx program")
	c.wantEffects(ref, metav1.ConditionUnknown, "NothingMatchedYet", pods, nothing, proven)
	if c.looks(ref); len(c.EventsOf("EffectLost")) != 1 {
		t.Error("it was told twice")
	}
	chaosLogs.turn(pods[0].Name, lost, "no longer there: another", 130)
	c.looks(ref)
	c.wantEffects(ref, metav1.ConditionFalse, "Lost", pods, lost, proven)
	if status := c.Get(ref).Status; status.InjectionStatus != v1beta1.Injected { // rule 31
		t.Errorf("injectionStatus = %s, want it Injected all the same", status.InjectionStatus)
	}
}

// rule E4: a late read, also after a failed one, still finds the lost effect.
func TestAnEffectThatTurnedUnseen(t *testing.T) {
	c := newCluster(t)
	chaosLogs := c.withLogs()
	c.MakeTargets(1, nil)
	ref := c.started("calm", nil)
	pod, began := c.ChaosPodsOf(ref)[0], time.Now().Unix()
	c.Becomes(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	chaosLogs.turn(pod.Name, v1beta1.EffectProven, "12 packets dropped", began)
	do[inject.InjectionProgress](c, c.AwaitInjection, inject.AwaitInput{Disruption: ref, Announce: []int{0}})
	asked := chaosLogs.asked
	if pause := c.looks(ref); pause != 0 || chaosLogs.asked != asked {
		t.Errorf("the next look is in %s after %d questions, want neither: it acts", pause, chaosLogs.asked-asked)
	}

	chaosLogs.turn(pod.Name, v1beta1.EffectLost, "no longer there: tcx program", began+1)
	chaosLogs.turn(pod.Name, v1beta1.EffectProven, "1 packet dropped", began+2)
	c.BecomesAt(pod, corev1.PodRunning, injectorRuns, corev1.ConditionTrue, time.Unix(began+12, 0))
	chaosLogs.away = true
	c.Eventually("somebody asks, and is not answered", func() bool { return c.looks(ref) == effectGap })
	chaosLogs.away = false
	if pause := c.looks(ref); pause != 0 {
		t.Errorf("the next look is in %s, want none: it acts again", pause)
	}
	c.wantEvent("EffectLost", pod.Name, "no longer there: tcx program")
}

// rule E1: the final figures
func TestEffectsAtTheEnd(t *testing.T) {
	c := newCluster(t)
	chaosLogs := c.withLogs()
	c.MakeTargets(1, nil)
	ref := c.started("calm", nil)
	pods := c.ChaosPodsOf(ref)
	c.Becomes(pods[0], corev1.PodRunning, injectorRuns, corev1.ConditionTrue)
	chaosLogs.turn(pods[0].Name, v1beta1.EffectProven, "1 packet dropped", 100)
	do[inject.InjectionProgress](c, c.AwaitInjection, inject.AwaitInput{Disruption: ref})
	effect := v1beta1.Effect{State: v1beta1.EffectProven, Evidence: "4711 packets dropped", Since: metav1.Unix(100, 0)}
	report, err := json.Marshal(v1beta1.InjectionReport{Injected: true, Cleaned: true, Audited: true, Effect: &effect})
	c.Must(err)
	c.Becomes(pods[0], corev1.PodSucceeded, apicluster.Exited(0, "Completed", string(report)), corev1.ConditionFalse)
	cleaned := do[clean.Result](c, c.CleanChaosPods, clean.Input{Shard: chaospod.Shard{Disruption: ref, Number: 0}, Patience: time.Minute})
	if len(cleaned.Effects) != 1 || cleaned.Effects[0].Pod != pods[0].Name || cleaned.Effects[0].Effect.Evidence != effect.Evidence {
		t.Fatalf("effects = %+v, want what the injector chaosLogs", cleaned.Effects)
	}
	do[int](c, c.Finish, status.FinishInput{Disruption: ref, Ending: v1beta1.EndingExpired, Effects: cleaned.Effects})
	status := c.Get(ref).Status
	verified := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionEffectVerified)
	if verified == nil || verified.Status != metav1.ConditionTrue || !strings.Contains(verified.Message, "4711") {
		t.Errorf("condition EffectVerified = %+v, want the figures of the end", verified)
	}
}

func TestDryRunHasNoEffect(t *testing.T) {
	c := newCluster(t)
	chaosLogs := c.withLogs()
	c.MakeTargets(1, nil)
	ref := c.injected("calm", func(spec *v1beta1.DisruptionSpec) { spec.DryRun = true })
	if p := do[inject.InjectionProgress](c, c.AwaitInjection, inject.AwaitInput{Disruption: ref}); p.Unproven != 0 {
		t.Errorf("progress = %+v, want nothing to be proven", p)
	}
	if verified := meta.FindStatusCondition(c.Get(ref).Status.Conditions, v1beta1.ConditionEffectVerified); verified != nil || chaosLogs.asked > 0 {
		t.Errorf("condition EffectVerified = %+v, %d logs read, want neither", verified, chaosLogs.asked)
	}
}
