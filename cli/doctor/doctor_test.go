package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/manifest"
)

func TestFieldsThatAnOlderClusterLacks(t *testing.T) {
	var known []string
	for _, field := range manifest.SpecFields() {
		if field != "network" && field != "pulse" {
			known = append(known, fmt.Sprintf("%q:{}", field))
		}
	}
	schema := `{"components":{"schemas":{"dev.squall.chaos.v1beta1.EmergencyStop":{},"dev.squall.chaos.v1beta1.Disruption":{"properties":{"spec":{"properties":{` +
		strings.Join(known, ",") + `}}}}}}}`
	missing, err := fieldsMissingIn([]byte(schema))
	if err != nil || !slices.Equal(missing, []string{"spec.network", "spec.pulse"}) {
		t.Errorf("fieldsMissingIn() = %v, %v", missing, err)
	}
	for _, broken := range []string{"{", "{}"} {
		if missing, err := fieldsMissingIn([]byte(broken)); err == nil {
			t.Errorf("fieldsMissingIn(%s) = %v, want an error", broken, missing)
		}
	}
}

func TestPrograms(t *testing.T) {
	for ready, want := range map[int32]Health{0: Fail, 1: Warn, 2: OK} {
		two := int32(2)
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &two}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
		if got := programFinding(d, ""); got.Health != want || (got.WayOut == "") != (want == OK) {
			t.Errorf("%d of 2 ready: %+v, want %s", ready, got, want)
		}
	}
}

func TestBundledTemporal(t *testing.T) {
	installed := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "squall-system", Name: "squall-temporal"}}
	const lost = "a drain of its node loses all workflows"
	got := judgeBundled(installed)
	if got.Health != Warn || !strings.Contains(got.Text, "squall-system/squall-temporal has no authentication") || !strings.Contains(got.Text, "your CNI must enforce it") || strings.Contains(got.Text, lost) {
		t.Errorf("with a volume claim: %+v, want a warning without the loss at a drain", got)
	}
	installed.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	if got := judgeBundled(installed); !strings.Contains(got.Text, lost) || !strings.Contains(got.WayOut, "temporal.bundled.storage") {
		t.Errorf("with an emptyDir: %+v, want the loss at a drain", got)
	}
}

func TestIsolation(t *testing.T) {
	for _, test := range []struct {
		name                  string
		unresolved, unreached error
		health                Health
		want                  string
	}{
		{"it answers", nil, nil, Fail, "The CNI does not enforce the NetworkPolicy squall-temporal"},
		{"a policy keeps the pod away", nil, errors.New("no answer in 10s"), OK, "does not answer this pod"},
		{"its name is unknown", errors.New("no such host"), errors.New("no such host"), Fail, "cannot find out whether"},
	} {
		got := Isolation("squall-temporal:7233", test.unresolved, test.unreached)
		if got.Health != test.health || !strings.Contains(got.Text, test.want) || !strings.Contains(got.Text, "squall-temporal:7233") {
			t.Errorf("%s: %+v, want %s with %q", test.name, got, test.health, test.want)
		}
	}
}

func TestTroubleOfContainers(t *testing.T) {
	for _, test := range []struct {
		name   string
		status corev1.ContainerStatus
		want   string
	}{
		{"ready", corev1.ContainerStatus{Ready: true}, ""},
		{"no image", corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "no such host"}}}, "ErrImagePull: no such host"},
		{"crashes", corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "no Temporal"}}},
			"CrashLoopBackOff, exit code 1: no Temporal"},
	} {
		if got := containerTrouble(test.status); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestRulesAboutRequestersThatAreNotRecorded(t *testing.T) {
	ours := &v1beta1.DisruptionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Spec: v1beta1.DisruptionPolicySpec{Rules: []v1beta1.PolicyRule{
		{Name: "all"}, {Name: "ours", ExceptRequesters: &v1beta1.PolicyRequesters{Users: []string{"ann"}}}, {Name: "theirs", Requesters: &v1beta1.PolicyRequesters{Users: []string{"bob"}}},
	}}}
	for _, test := range []struct {
		noted  bool
		rules  int
		health Health
		want   string
	}{{false, 1, OK, "no policy depends"}, {false, 3, Warn, "deny every user: prod/ours, prod/theirs"}, {true, 3, OK, "it is noted"}} {
		policy := ours.DeepCopy()
		policy.Spec.Rules = policy.Spec.Rules[:test.rules]
		if got := judgeRequesters(test.noted, []*v1beta1.DisruptionPolicy{policy}); got.Health != test.health || !strings.Contains(got.Text, test.want) {
			t.Errorf("%d rules, noted %t: %+v, want %s with %q", test.rules, test.noted, got, test.health, test.want)
		}
	}
}

func TestDisruptionsThatNeedAPerson(t *testing.T) {
	made := func(change func(*v1beta1.Disruption)) []v1beta1.Disruption {
		d := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}
		change(&d)
		return []v1beta1.Disruption{d}
	}
	for _, test := range []struct {
		name   string
		all    []v1beta1.Disruption
		health Health
		want   string
	}{
		{"none", nil, OK, "0 run"},
		{"one runs", made(func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseHolding }), OK, "1 run"},
		{"one is over", made(func(d *v1beta1.Disruption) { d.Status.Phase = v1beta1.PhaseFinished }), OK, "0 run"},
		{"one is stuck", made(func(d *v1beta1.Disruption) { d.Status.IsStuckOnRemoval = true }), Warn, "stuck: shop/a"},
		{"one waits for Temporal", made(func(d *v1beta1.Disruption) {
			d.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionOrchestrated, Status: metav1.ConditionFalse, Reason: "TemporalUnreachable"}}
		}), Warn, "not carried out: shop/a (TemporalUnreachable"},
	} {
		if got := judgeDisruptions(test.all); got.Health != test.health || !strings.Contains(got.Text, test.want) {
			t.Errorf("%s: %+v, want %s with %q", test.name, got, test.health, test.want)
		}
	}
}
