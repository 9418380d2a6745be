package podops

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// played is an API server with one pod, its kubelet and its service controller.
type played struct{ pod *corev1.Pod }

func newPlayed() played {
	return played{&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{LabelManaged: ManagedValue, "app": "web"},
			Annotations: map[string]string{AnnotationAvailable: `{"expectedFinalizers":{"Service/shop/web":"` + FinalizerPrefix + `traffic"}}`}},
		Spec: corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: ReadinessGate}}},
	}}
}

// drive lets the driver make one write, and returns whether there was one.
func (p played) drive(t *testing.T, permitted bool) bool {
	t.Helper()
	move, err := Drive(p.pod, permitted, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	p.labels(move.Labels)
	if move.Serving != "" {
		p.condition(ReadinessGate, move.Serving)
	}
	return move.Labels != nil || move.Serving != ""
}

func (p played) labels(changes map[string]any) {
	for key, value := range changes {
		if text, ok := value.(string); ok {
			p.pod.Labels[key] = text
		} else {
			delete(p.pod.Labels, key)
		}
	}
}

// merge applies a patch of labels, as the worker writes it.
func (p played) merge(t *testing.T, patch []byte) {
	t.Helper()
	if patch == nil {
		return
	}
	var body struct {
		Metadata struct{ Labels map[string]any }
	}
	if err := json.Unmarshal(patch, &body); err != nil {
		t.Fatal(err)
	}
	p.labels(body.Metadata.Labels)
}

func (p played) condition(kind corev1.PodConditionType, status corev1.ConditionStatus) {
	for i := range p.pod.Status.Conditions {
		if p.pod.Status.Conditions[i].Type == kind {
			p.pod.Status.Conditions[i].Status = status
			return
		}
	}
	p.pod.Status.Conditions = append(p.pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
}

func (p played) kubelet() {
	ready := corev1.ConditionFalse
	if conditionIs(p.pod, ReadinessGate, corev1.ConditionTrue) {
		ready = corev1.ConditionTrue
	}
	p.condition(corev1.PodReady, ready)
}

// traffic plays a service controller: it serves a pod that is ready, and no other.
func (p played) traffic() {
	p.pod.Finalizers = nil
	if Ready(p.pod) {
		p.pod.Finalizers = []string{FinalizerPrefix + "traffic"}
	}
}

// settle lets all programs write until none has anything to write.
func (p played) settle(t *testing.T) {
	t.Helper()
	for range 50 {
		p.kubelet()
		p.traffic()
		if !p.drive(t, true) {
			return
		}
	}
	t.Fatalf("the pod never settles: %v", p.pod.Labels)
}

// lifecycle returns the labels that an operation has left.
func (p played) lifecycle() (left []string) {
	for key := range p.pod.Labels {
		if strings.Contains(key, "."+Domain+"/") {
			left = append(left, key)
		}
	}
	return left
}

// rules L17, L18, L19: the driver's writes, one after the other.
func TestDrive(t *testing.T) {
	p, up, down := newPlayed(), corev1.ConditionTrue, corev1.ConditionFalse
	step := func(what string, wantLabel string, gate corev1.ConditionStatus) {
		t.Helper()
		if !p.drive(t, true) {
			t.Fatalf("%s: nothing is written", what)
		}
		if _, found := p.pod.Labels[wantLabel]; wantLabel != "" && !found || !conditionIs(p.pod, ReadinessGate, gate) {
			t.Fatalf("%s: labels %v, conditions %v; want %s, and %s", what, p.pod.Labels, p.pod.Status.Conditions, wantLabel, gate)
		}
	}
	still := func(what string) {
		t.Helper()
		if move, err := Drive(p.pod, true, time.Now()); err != nil || move.Labels != nil || move.Serving != "" {
			t.Fatalf("%s: Drive = %+v, %v, want nothing", what, move, err)
		}
	}
	step("a new pod", "", up)
	p.kubelet()
	still("who brings traffic is not there yet")
	p.traffic()
	step("all are there", LabelAvailable, up)
	still("in service")

	p.merge(t, ours.Begin(p.pod.UID, time.Now()))
	if _, err := Drive(p.pod, false, time.Now()); err != nil || !Asks(p.pod) {
		t.Fatalf("Asks = false (%v) once it was begun", err)
	}
	step("begun", ours.label(LabelPreparing), up)
	if _, found := p.pod.Labels[LabelAvailable]; found {
		t.Error("it is said to be in service while it prepares")
	}
	step("Preparing", ours.label(LabelPreparing), down)
	p.kubelet()
	still("somebody serves it")
	p.traffic()
	step("nobody serves it", ours.label(LabelOperate), down)
	still("given")

	p.merge(t, ours.End(p.pod))
	step("finished", ours.label(LabelCompleting), down)
	step("Completing", ours.label(LabelCompleting), up)
	p.kubelet()
	still("who brings traffic is not back")
	p.traffic()
	step("all are back", LabelAvailable, up)
	if left := p.lifecycle(); len(left) > 0 {
		t.Errorf("labels %v are left", left)
	}
}

func TestDriveLeavesAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"no label":                     func(p *corev1.Pod) { delete(p.Labels, LabelManaged) },
		"no readiness gate":            func(p *corev1.Pod) { p.Spec.ReadinessGates = nil },
		"it ends":                      ends,
		"nobody permits it, and waits": func(p *corev1.Pod) { p.Labels[ours.label(LabelPreCheck)] = "1" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := managed(corev1.ConditionTrue, LabelOperating)
			change(pod)
			if move, err := Drive(pod, false, time.Now()); err != nil || move.Labels != nil || move.Serving != "" {
				t.Errorf("Drive = %+v, %v, want nothing", move, err)
			}
		})
	}
}

// An operation that waits for another one to end is ended with it. An operation that is
// undone removes the permission of its type only if it was the last.
func TestDriveSeveralOperations(t *testing.T) {
	p, other := newPlayed(), Operation{ID: "other", Type: "chaos"}
	p.settle(t)
	p.merge(t, ours.Begin(p.pod.UID, time.Now()))
	p.merge(t, other.Begin(p.pod.UID, time.Now()))
	p.settle(t)
	if !ours.Holds(p.pod) || !other.Holds(p.pod) {
		t.Fatalf("labels = %v, want both given", p.pod.Labels)
	}
	p.labels(map[string]any{ours.label(LabelUndo): ours.Type})
	p.settle(t)
	if _, found := p.pod.Labels[LabelPermission+"/chaos"]; !found || ours.On(p.pod) || !other.Holds(p.pod) {
		t.Errorf("one of two undone: %v", p.pod.Labels)
	}
	p.merge(t, other.End(p.pod))
	p.settle(t)
	if diff := cmp.Diff([]string(nil), p.lifecycle()); diff != "" {
		t.Errorf("labels left (-want +got):\n%s", diff)
	}
}

// For 1,000 random courses in which operations are begun, cancelled, finished too
// early, undone and left half written, and the driver stops and starts: no label is
// left, and the pod is in service.
func TestNoLabelIsLeftBehind(t *testing.T) {
	operations := []Operation{ours, {ID: "other", Type: "chaos"}, {ID: "scale", Type: "scale"}}
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 0))
		p := newPlayed()
		for range 60 {
			o := operations[random.IntN(len(operations))]
			switch random.IntN(9) {
			case 0:
				p.merge(t, o.Begin(p.pod.UID, time.Now()))
			case 1:
				p.merge(t, o.End(p.pod))
			case 2: // finished blindly, in whichever phase it is
				p.labels(map[string]any{o.label(LabelOperating): nil})
			case 3:
				p.labels(map[string]any{o.label(LabelUndo): o.Type})
			case 4:
				p.kubelet()
			case 5:
				p.traffic()
			default: // a driver that has just started knows as much as any
				p.drive(t, random.IntN(2) == 0)
			}
		}
		for _, o := range operations {
			p.labels(map[string]any{o.label(LabelOperating): nil})
		}
		p.settle(t)
		if left := p.lifecycle(); len(left) > 0 {
			t.Fatalf("seed %d: labels %v are left", seed, left)
		}
		if in, err := Available(p.pod); !in || err != nil {
			t.Fatalf("seed %d: the pod is not in service (%v): %v %v", seed, err, p.pod.Labels, p.pod.Status.Conditions)
		}
	}
}
