package kuperator

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// pod is a managed pod with these labels, each KIND or KIND/ID or KIND/ID=VALUE, of id a by
// default and without the domain.
func pod(labels ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{podops.LabelManaged: podops.ManagedValue}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}},
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: podops.ReadinessGate, Status: corev1.ConditionTrue}}},
	}
	for _, label := range labels {
		label, value, valued := strings.Cut(label, "=")
		kind, id, named := strings.Cut(label, "/")
		if !named {
			id = "a"
		}
		if !valued {
			value = "1"
		}
		if kind == "operation-type" && !valued {
			value = "chaos"
		}
		p.Labels[kind+"."+podops.Domain+"/"+id] = value
	}
	return p
}

// left are the labels of operations on a pod, as pod takes them, without values.
func left(p *corev1.Pod) []string {
	found := []string{}
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		if kind, id, _ := strings.Cut(key, "/"); strings.HasSuffix(kind, "."+podops.Domain) {
			found = append(found, strings.TrimSuffix(strings.TrimSuffix(kind, podops.Domain), ".")+"/"+id)
		}
	}
	return found
}

// TestTheStandInDoesWhatKuperatorDoes has a row for each behaviour of Kuperator
// v0.7.1, observed or read in its source, that an earlier stand-in lacked.
func TestTheStandInDoesWhatKuperatorDoes(t *testing.T) {
	preparing := []string{"operating", "operation-type", "pre-checked", "preparing", "operation-permission/chaos"}
	given := []string{"operating", "operation-type", "pre-checked", "operate", "operation-permission/chaos"}
	for _, row := range []struct {
		seen, name string
		before     *corev1.Pod
		// writes sets labels, each as pod takes them; or, behind a minus, takes a label off.
		writes  []string
		refused string
		after   []string
	}{
		{
			"D1", "Finish without the label of the type is refused",
			pod("operating", "pre-checked", "operate", "operation-permission/chaos"), []string{"-operating"},
			"failed to validate PodOpsLifecycleWebhook, not found label done-operation-type.podopslifecycle.kusionstack.io/a", nil,
		},
		{
			"D1", "and so is Finish with the label in the same write, as the type is read from the pod before that",
			pod("operating", "pre-checked", "operate", "operation-permission/chaos"), []string{"operation-type", "-operating"}, "not found label done-operation-type", nil,
		},
		{
			"D1", "Finish takes the permission and the type off, and leaves the type that is done",
			pod(given...), []string{"-operating"}, "", []string{"done-operation-type/a", "operated/a", "post-check/a"},
		},
		{
			"D1", "in Preparing Undo without the label of the type is refused: the permission would be left alone",
			pod("operating", "pre-checked", "preparing", "operation-permission/chaos"), []string{"undo-operation-type=chaos"}, "not found the expected label prefixes", nil,
		},
		{
			"D1", "Undo with the label of the type in the same write takes all off",
			pod("operating", "pre-checked", "preparing", "operation-permission/chaos"), []string{"operation-type", "undo-operation-type=chaos"}, "", []string{},
		},
		{
			"D1", "the Finish of another operation is refused, too, when one that waits for it has lost the label of its type",
			pod("operate", "pre-checked", "operation-permission/chaos", "operating/scale", "operation-type/scale=scale", "pre-checked/scale", "operate/scale", "operation-permission/scale"),
			[]string{"-operating/scale"}, "not found label done-operation-type.podopslifecycle.kusionstack.io/a", nil,
		},
		{
			"D2", "without operating an id is none: its Undo is ignored",
			pod("operation-type", "pre-checked", "preparing", "operation-permission/chaos"), []string{"undo-operation-type=chaos"},
			"", []string{"operation-permission/chaos", "operation-type/a", "pre-checked/a", "preparing/a", "undo-operation-type/a"},
		},
		{
			"D2", "taking operating off in Preparing leaves the others",
			pod(preparing...), []string{"-operating"}, "", []string{"operation-permission/chaos", "operation-type/a", "pre-checked/a", "preparing/a"},
		},
		{
			"D2", "all of them may be taken off together",
			pod("operation-type", "pre-checked", "preparing", "operation-permission/chaos"),
			[]string{"-operation-type", "-pre-checked", "-preparing", "-operation-permission/chaos"}, "", []string{},
		},
		{
			"D2", "but not without the permission",
			pod("operation-type", "pre-checked", "preparing", "operation-permission/chaos"),
			[]string{"-operation-type", "-pre-checked", "-preparing"}, "not found the expected label prefixes: map[pre-checked", nil,
		},
		{
			"T1", "the next Begin of the id skips pre-check",
			pod("operation-type", "pre-checked", "preparing", "operation-permission/chaos"), []string{"operating"},
			"", []string{"operating/a", "operation-permission/chaos", "operation-type/a", "pre-checked/a", "preparing/a"},
		},
		{
			"facts 13", "operate alone is refused", pod(), []string{"operate"}, "not found label done-operation-type", nil,
		},
		{
			"L1", "operated alone is refused", pod(), []string{"operated"}, "not found label done-operation-type", nil,
		},
		{
			"Begin", "the webhook adds pre-check to the same write", pod(), []string{"operating", "operation-type"}, "", []string{"operating/a", "operation-type/a", "pre-check/a"},
		},
		{
			"Undo", "it takes all labels off in the same write", pod(given...), []string{"undo-operation-type=chaos"}, "", []string{},
		},
	} {
		t.Run(row.seen+": "+row.name, func(t *testing.T) {
			after := row.before.DeepCopy()
			for _, label := range row.writes {
				if off, found := strings.CutPrefix(label, "-"); found {
					maps.DeleteFunc(after.Labels, func(key, _ string) bool {
						return slices.Contains(slices.Collect(maps.Keys(pod(off).Labels)), key) && key != podops.LabelManaged
					})
					continue
				}
				maps.Copy(after.Labels, pod(label).Labels)
			}
			err := Admit(row.before, after)
			if row.refused != "" {
				if err == nil || !strings.Contains(err.Error(), row.refused) {
					t.Errorf("Admit = %v, want it refused: %s", err, row.refused)
				}
				return
			}
			if diff := cmp.Diff(row.after, left(after)); diff != "" || err != nil {
				t.Errorf("Admit = %v; labels (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestWhatTheControllerDoes removes labels and checks the controller's reaction.
func TestWhatTheControllerDoes(t *testing.T) {
	out := func(p *corev1.Pod) *corev1.Pod { p.Status.Conditions[0].Status = corev1.ConditionFalse; return p }
	for _, row := range []struct {
		seen, name string
		pod        *corev1.Pod
		after      []string
		condition  corev1.ConditionStatus
	}{
		{"D1", "without the label of the type pre-check is passed by no operation", pod("operating", "pre-check"), []string{"operating/a", "pre-check/a"}, corev1.ConditionTrue},
		{"D1", "one that cannot be finished leaves the pod out of service", out(pod("pre-checked", "operate", "operation-permission/chaos")),
			[]string{"operate/a", "operation-permission/chaos", "pre-checked/a"}, corev1.ConditionFalse},
		{"D2", "a pod that has no id comes back into service, whatever labels are left", out(pod("operation-type", "pre-checked", "preparing", "operation-permission/chaos")),
			[]string{"operation-permission/chaos", "operation-type/a", "pre-checked/a", "preparing/a"}, corev1.ConditionTrue},
		{"Preparing", "it takes the pod out of service, and gives it in the same write", pod("operating", "operation-type", "pre-checked", "preparing", "operation-permission/chaos"),
			[]string{"operate/a", "operating/a", "operation-permission/chaos", "operation-type/a", "pre-checked/a"}, corev1.ConditionFalse},
	} {
		t.Run(row.seen+": "+row.name, func(t *testing.T) {
			for range 20 {
				if !Move(row.pod) {
					break
				}
			}
			if diff := cmp.Diff(row.after, left(row.pod)); diff != "" || conditionOf(row.pod) != row.condition {
				t.Errorf("condition %s, want %s; labels (-want +got):\n%s", conditionOf(row.pod), row.condition, diff)
			}
		})
	}
}

// The API server asks the webhook about each write, and fails them all while the webhook is
// away: with 500, and not with what a client knows as a conflict or as too many requests.
func TestTheWebhookIsAsked(t *testing.T) {
	kube, err := kubernetes.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	made, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	server := Serve(t, kube, made.Name)
	bare := pod()
	bare.Spec.ReadinessGates, bare.Status = nil, corev1.PodStatus{}
	created, err := kube.CoreV1().Pods(made.Name).Create(t.Context(), bare, metav1.CreateOptions{})
	if err != nil || len(created.Spec.ReadinessGates) != 1 {
		t.Fatalf("created %+v, %v; want the gate added", created, err)
	}
	write := func(labels string) (*corev1.Pod, error) {
		return kube.CoreV1().Pods(made.Name).Patch(t.Context(), "web", types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%s}}}`, labels), metav1.PatchOptions{})
	}
	begun, err := write(`"operating.podopslifecycle.kusionstack.io/a":"1","operation-type.podopslifecycle.kusionstack.io/a":"chaos"`)
	if want := []string{"operating/a", "operation-type/a", "pre-check/a"}; err != nil || !slices.Equal(left(begun), want) {
		t.Errorf("begun = %v, %v; want %v", left(begun), err, want)
	}
	if _, err = write(`"operated.podopslifecycle.kusionstack.io/b":"1"`); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied the request: failed to validate") {
		t.Errorf("operated alone: %v, want it refused with 403", err)
	}
	server.Away.Store(true)
	if _, err = write(`"a":"b"`); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("a write while the webhook is away: %v, want 500", err)
	}
	server.Away.Store(false)
	if _, err = write(`"a":"b"`); err != nil {
		t.Errorf("a write when the webhook is back: %v", err)
	}
}
