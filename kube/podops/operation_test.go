package podops

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

var ours = Operation{ID: "chaos-1", Type: "chaos"}

// managed is a pod that a driver moves, with these labels of ours, in service or not.
func managed(ready corev1.ConditionStatus, kinds ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Labels: map[string]string{LabelManaged: ManagedValue}},
		Spec:       corev1.PodSpec{ReadinessGates: []corev1.PodReadinessGate{{ConditionType: ReadinessGate}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: ReadinessGate, Status: ready}, {Type: corev1.PodReady, Status: ready},
		}},
	}
	for _, kind := range kinds {
		pod.Labels[ours.label(kind)] = "1"
	}
	return pod
}

func TestNext(t *testing.T) {
	changed := func(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod { change(pod); return pod }
	up, down := corev1.ConditionTrue, corev1.ConditionFalse
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want Step
	}{
		{"nothing was begun", managed(up), StepBegin},
		{"begun, and the driver says nothing yet", managed(up, LabelOperating), StepWait},
		{"out of service, and not given yet", managed(down, LabelOperating), StepWait},
		{"given, and still in service", managed(up, LabelOperating, LabelOperationType, LabelOperate), StepWait},
		{"given, and out of service", managed(down, LabelOperating, LabelOperationType, LabelOperate), StepOperate},
		{"given, and somebody took the label of the type off", managed(down, LabelOperating, LabelOperate), StepWait},
		{"orphans of an operation that was finished too early", managed(up, LabelOperate), StepBegin},
		{"given to another one", changed(managed(down, LabelOperating), func(p *corev1.Pod) { p.Labels[LabelOperate+"/scale"] = "1" }), StepWait},
		{"it ends before it was begun", changed(managed(up), ends), StepGiveUp},
		{"it ends while it is waited for", changed(managed(up, LabelOperating), ends), StepGiveUp},
		{"it ends when it was given", changed(managed(down, LabelOperating, LabelOperationType, LabelOperate), ends), StepGiveUp},
		{"no label", changed(managed(up), func(p *corev1.Pod) { p.Labels = nil }), StepUnmanaged},
		{"no readiness gate", changed(managed(up), func(p *corev1.Pod) { p.Spec.ReadinessGates = nil }), StepUnmanaged},
		{"a gate, and no condition", changed(managed(up), func(p *corev1.Pod) { p.Status.Conditions = nil }), StepUnmanaged},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ours.Next(test.pod); got != test.want {
				t.Errorf("Next = %s, want %s", got, test.want)
			}
		})
	}
}

func ends(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }

func TestEnd(t *testing.T) {
	undo := `{"metadata":{"labels":{"undo-operation-type.podopslifecycle.kusionstack.io/chaos-1":"chaos"},"uid":"u"}}`
	finish := `{"metadata":{"labels":{"operating.podopslifecycle.kusionstack.io/chaos-1":null},"uid":"u"}}`
	retype := `{"metadata":{"labels":{"operation-type.podopslifecycle.kusionstack.io/chaos-1":"chaos"},"uid":"u"}}`
	strip := func(kinds ...string) string {
		labels := map[string]any{}
		for _, kind := range kinds {
			labels[ours.label(kind)] = nil
			if kind == LabelPermission {
				delete(labels, ours.label(kind))
				labels[LabelPermission+"/chaos"] = nil
			}
		}
		return string(labelsPatch("u", labels))
	}
	permitted := func(pod *corev1.Pod) *corev1.Pod { pod.Labels[LabelPermission+"/chaos"] = "1"; return pod }
	ending := func(pod *corev1.Pod) *corev1.Pod { ends(pod); return pod }
	up := corev1.ConditionTrue
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"nothing was begun", managed(up), ""},
		{"begun: undone, never finished", managed(up, LabelOperating, LabelOperationType), undo},
		{"preparing: undone, never finished", managed(up, LabelOperating, LabelOperationType, LabelPreChecked, LabelPreparing), undo},
		{"undone already, and the driver is late", managed(up, LabelOperating, LabelOperationType, LabelUndo), ""},
		{"given: finished", managed(up, LabelOperating, LabelOperationType, LabelOperate), finish},
		{"finished already, and another one goes on", managed(up, LabelOperationType, LabelOperate), ""},
		{"finished, and a driver completes it", managed(up, LabelOperated, LabelDoneType, LabelPostChecked, LabelCompleting), ""},
		{"D1: somebody took the type off before it was given: put back first", managed(up, LabelOperating, LabelPreChecked, LabelPreparing), retype},
		{"D1: somebody took the type off when it was given: put back first", managed(up, LabelOperating, LabelOperate), retype},
		{"D1: somebody took the type off when it was finished, and another one goes on: put back", managed(up, LabelOperate), retype},
		{"D2: somebody took operating off as soon as it was begun: all taken off", managed(up, LabelOperationType), strip(LabelOperationType)},
		{"D2: somebody took operating off before it was given: all taken off", permitted(managed(up, LabelOperationType, LabelPreChecked, LabelPreparing)),
			strip(LabelPermission, LabelOperationType, LabelPreChecked, LabelPreparing)},
		{"D2: undone after that already, which Kuperator ignores: all taken off", managed(up, LabelOperationType, LabelUndo), strip(LabelOperationType, LabelUndo)},
		{"somebody took completing off: Kuperator puts it back", managed(up, LabelOperated, LabelDoneType, LabelPostChecked), ""},
		{"D10: the pod ends, and no driver moves it: all taken off", ending(managed(up, LabelOperating, LabelOperationType)), strip(LabelOperating, LabelOperationType)},
		{"no driver manages it any more: every label is taken off", unmanaged(managed(up, LabelOperate)), `{"metadata":{"labels":{"operate.podopslifecycle.kusionstack.io/chaos-1":null},"uid":"u"}}`},
		{"no driver moves it, and it has none", unmanaged(managed(up)), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(ours.End(test.pod))); diff != "" {
				t.Errorf("End (-want +got):\n%s", diff)
			}
		})
	}
}

// A caller that ends operations of disruptions finds also an operation with a left
// label that no driver removes.
func TestOfDisruptions(t *testing.T) {
	const id = "chaos-0123456789abcdef"
	for _, test := range []struct {
		name   string
		labels []string
		found  bool
	}{
		{"begun", []string{LabelOperating, LabelOperationType}, true},
		{"given", []string{LabelOperating, LabelOperationType, LabelOperate}, true},
		{"operating was taken off", []string{LabelOperationType}, true},
		{"it is being undone", []string{LabelOperating, LabelOperationType, LabelUndo}, false},
		{"D2: operating was taken off, and it is being undone, which Kuperator ignores", []string{LabelOperationType, LabelUndo}, true},
		{"D1: the type was taken off when it was finished, which keeps others from it", []string{LabelOperate}, true},
		{"it was finished", []string{LabelOperationType, LabelOperate}, false},
		{"it is being completed", []string{LabelOperated, LabelDoneType, LabelPostCheck}, false},
		{"it has another one's alone", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := managed(corev1.ConditionTrue)
			pod.Labels[LabelOperating+"/scale"], pod.Labels[LabelPermission+"/chaos"] = "1", "1"
			for _, kind := range test.labels {
				pod.Labels[kind+"/"+id] = "1"
			}
			var want []Operation
			if test.found {
				want = []Operation{{ID: id, Type: "chaos"}}
			}
			if diff := cmp.Diff(want, OfDisruptions(pod)); diff != "" {
				t.Errorf("OfDisruptions (-want +got):\n%s", diff)
			}
		})
	}
}

func unmanaged(pod *corev1.Pod) *corev1.Pod { delete(pod.Labels, LabelManaged); return pod }

// Strip removes all labels of ours where no driver answers, and no others.
func TestStrip(t *testing.T) {
	pod := managed(corev1.ConditionFalse, LabelOperate, LabelPreChecked)
	pod.Labels["app"], pod.Labels[LabelPermission+"/chaos"], pod.Labels[LabelPermission+"/scale"] = "web", "1", "1"
	if !ours.Stands(pod) {
		t.Error("a pod of which nothing was done counts as one that is moved")
	}
	const want = `{"metadata":{"labels":{"operate.podopslifecycle.kusionstack.io/chaos-1":null,"operation-permission.podopslifecycle.kusionstack.io/chaos":null,` +
		`"pre-checked.podopslifecycle.kusionstack.io/chaos-1":null},"uid":"u"}}`
	if diff := cmp.Diff(want, string(ours.Strip(pod))); diff != "" {
		t.Errorf("Strip (-want +got):\n%s", diff)
	}
	pod.Labels[LabelOperating+"/scale"] = "1"
	if ours.Stands(pod) || want != string(ours.Strip(pod)) {
		t.Errorf("beside another operation: stands %t, %s", ours.Stands(pod), ours.Strip(pod))
	}
	pod.Labels[LabelPreChecked+"/scale"], pod.Labels[LabelOperationType+"/scale"] = "1", "scale"
	if want != string(ours.Strip(pod)) {
		t.Errorf("beside another operation of another type: %s", ours.Strip(pod))
	}
	pod.Labels[LabelOperationType+"/scale"] = "chaos"
	if strings.Contains(string(ours.Strip(pod)), LabelPermission) {
		t.Errorf("beside another operation that has the permission: %s", ours.Strip(pod))
	}
	if !ours.Stands(managed(corev1.ConditionTrue, LabelOperated, LabelPostChecked)) {
		t.Error("one of which somebody took completing off counts as one that is moved")
	}
	if ours.Stands(managed(corev1.ConditionTrue, LabelCompleting)) || ours.Stands(managed(corev1.ConditionTrue)) {
		t.Error("one that a driver completes, or that has no label, counts as one of which nothing was done")
	}
}

// A permission is removed when no operation can have it any more, and only then.
func TestStray(t *testing.T) {
	permitted := func(labels ...string) *corev1.Pod {
		pod := managed(corev1.ConditionTrue)
		pod.ResourceVersion, pod.Labels[LabelPermission+"/chaos"] = "7", "1"
		for i := 0; i < len(labels); i += 2 {
			pod.Labels[labels[i]] = labels[i+1]
		}
		return pod
	}
	const want = `{"metadata":{"labels":{"operation-permission.podopslifecycle.kusionstack.io/chaos":null},"resourceVersion":"7","uid":"u"}}`
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"nothing is left but the permission", permitted(), want},
		{"there is none", managed(corev1.ConditionTrue), ""},
		{"an operation of the type", permitted(LabelOperating+"/chaos-2", "1", LabelOperationType+"/chaos-2", "chaos"), ""},
		{"one of which nobody knows the type any more", permitted(LabelOperate+"/chaos-2", "1"), ""},
		{"one of another type alone", permitted(LabelOperating+"/scale", "1", LabelOperationType+"/scale", "scale", LabelPermission+"/scale", "1"), want},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, string(ours.Stray(test.pod))); diff != "" {
				t.Errorf("Stray (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAvailable(t *testing.T) {
	traffic := "prot." + Domain + "/traffic"
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := managed(corev1.ConditionTrue)
		p.Labels[LabelAvailable] = "1"
		p.Annotations = map[string]string{AnnotationAvailable: `{"expectedFinalizers":{"Service/shop/web":"` + traffic + `"}}`}
		p.Finalizers = []string{traffic}
		change(p)
		return p
	}
	for _, test := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"in service", func(*corev1.Pod) {}, true},
		{"nobody brings traffic", func(p *corev1.Pod) { p.Annotations, p.Finalizers = nil, nil }, true},
		{"the label is there before the traffic", func(p *corev1.Pod) { p.Finalizers = nil }, false},
		{"no label", func(p *corev1.Pod) { delete(p.Labels, LabelAvailable) }, false},
		{"not ready", func(p *corev1.Pod) { p.Status.Conditions = nil }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := Available(pod(test.change)); got != test.want || err != nil {
				t.Errorf("Available = %t, %v; want %t", got, err, test.want)
			}
		})
	}
	broken := pod(func(p *corev1.Pod) { p.Annotations[AnnotationAvailable] = "{" })
	if _, err := Available(broken); err == nil || !strings.Contains(err.Error(), AnnotationAvailable) {
		t.Errorf("Available with a broken annotation: %v, want an error that names it", err)
	}
}

// The id is part of a label's name, the type that and a value.
func TestOperationOfADisruption(t *testing.T) {
	o := OfDisruption("0a1b2c3d-0000-4000-8000-123456789abc")
	if other := OfDisruption("0a1b2c3d-0000-4000-8000-123456789abd"); other.ID == o.ID {
		t.Errorf("two disruptions have the id %s", o.ID)
	}
	for _, key := range []string{o.label(LabelOperating), o.label(LabelOperationType), o.label(LabelUndo), LabelOperate + "/" + o.Type} {
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("label %s: %v", key, problems)
		}
	}
	if problems := validation.IsValidLabelValue(o.Type); len(problems) > 0 {
		t.Errorf("value %s: %v", o.Type, problems)
	}
}

// An API server accepts the patches, which write nothing but labels, and refuses a
// patch for another pod of the name.
func TestPatchesOfAnOperation(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods := client.CoreV1().Pods(made.Name)
	before, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body []byte) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), "web", types.MergePatchType, body, metav1.PatchOptions{})
	}
	if _, err := patch(ours.Begin("another", time.Unix(0, 7))); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.uid") {
		t.Errorf("a patch for another pod of the name: %v, want its UID refused", err)
	}
	begun, err := patch(ours.Begin(before.UID, time.Unix(0, 7)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"app": "web",
		"operating.podopslifecycle.kusionstack.io/chaos-1":      "7",
		"operation-type.podopslifecycle.kusionstack.io/chaos-1": "chaos",
	}
	if diff := cmp.Diff(want, begun.Labels); diff != "" {
		t.Errorf("labels after Begin (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Spec, begun.Spec); diff != "" || len(begun.Finalizers)+len(begun.Annotations) > 0 {
		t.Errorf("Begin changed more than labels: %v %v %s", begun.Finalizers, begun.Annotations, diff)
	}
	moved := managed(corev1.ConditionTrue) // by a driver
	begun.Labels[LabelManaged], begun.Spec.ReadinessGates, begun.Status.Conditions = ManagedValue, moved.Spec.ReadinessGates, moved.Status.Conditions
	undone, err := patch(ours.End(begun))
	if err != nil || undone.Labels[ours.label(LabelUndo)] != "chaos" || !ours.has(undone, LabelOperating) {
		t.Errorf("labels after Undo = %v, %v; want it asked for, the driver does the rest", undone.Labels, err)
	}
	begun.Labels[ours.label(LabelOperate)] = "1"
	if finished, err := patch(ours.End(begun)); err != nil || ours.has(finished, LabelOperating) || finished.Labels["app"] != "web" {
		t.Errorf("labels after Finish = %v, %v; want operating gone", finished.Labels, err)
	}
}
