package replacement

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// node is a node after the disruptions of these UIDs and a person cordoned it.
func node(unschedulable bool, uids ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n", ResourceVersion: "7", Annotations: map[string]string{"somebody": "else"}}}
	n.Spec.Unschedulable = unschedulable
	for _, uid := range uids {
		n.Labels = map[string]string{v1beta1.LabelCordoned: "true"}
		n.Annotations[v1beta1.AnnotationCordon+uid] = "shop/" + uid
	}
	return n
}

// after is the node after the patch.
func after(t *testing.T, n *corev1.Node, patch map[string]any) *corev1.Node {
	t.Helper()
	if patch == nil {
		return n
	}
	before, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	document, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	text, err := strategicpatch.StrategicMergePatch(before, document, corev1.Node{}) // as a merge patch, for maps and values
	if err != nil {
		t.Fatal(err)
	}
	patched := &corev1.Node{}
	if err := json.Unmarshal(text, patched); err != nil {
		t.Fatal(err)
	}
	return patched
}

func TestCordonsOfDisruptions(t *testing.T) {
	cordon := func(uid string) func(*corev1.Node) map[string]any {
		return func(n *corev1.Node) map[string]any {
			return cordoned(n, v1beta1.DisruptionRef{Namespace: "shop", Name: uid, UID: types.UID(uid)})
		}
	}
	uncordon := func(uid string) func(*corev1.Node) map[string]any {
		return func(n *corev1.Node) map[string]any { return uncordoned(n, types.UID(uid)) }
	}
	for _, c := range []struct {
		name         string
		before, want *corev1.Node
		change       func(*corev1.Node) map[string]any
	}{
		{"mark and cordon come in one patch", node(false), node(true, "a"), cordon("a")},
		{"cordoned by another disruption: marked as well", node(true, "a"), node(true, "a", "b"), cordon("b")},
		{"cordoned by a person: left alone, without a mark", node(true), node(true), cordon("a")},
		{"cordoned by itself before: nothing to do", node(true, "a"), node(true, "a"), cordon("a")},
		{"a person uncordoned it meanwhile: left alone", node(false, "a"), node(false, "a"), cordon("a")},
		{"the last one uncordons", node(true, "a"), node(false), uncordon("a")},
		{"another disruption needs the cordon: only the mark goes", node(true, "a", "b"), node(true, "b"), uncordon("a")},
		{"a person's cordon stays", node(true), node(true), uncordon("a")},
		{"no mark of this disruption: nothing to do", node(true, "b"), node(true, "b"), uncordon("a")},
		{"uncordoned by a person meanwhile: the mark goes", node(false, "a"), node(false), uncordon("a")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := after(t, c.before.DeepCopy(), c.change(c.before))
			if len(got.Labels) == 0 {
				got.Labels = nil
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchesOfNodesAreGuardedByTheVersion(t *testing.T) {
	for _, patch := range []map[string]any{cordoned(node(false), v1beta1.DisruptionRef{UID: "a"}), uncordoned(node(true, "a"), "a"), uncordoned(node(true, "a", "b"), "a")} {
		if version := patch["metadata"].(map[string]any)["resourceVersion"]; version != "7" {
			t.Errorf("the patch is for version %v, want that of the node that was read", version)
		}
	}
}

func TestMarksNameTheirDisruptions(t *testing.T) {
	want := []v1beta1.DisruptionRef{{Namespace: "shop", Name: "a", UID: "a"}, {Namespace: "shop", Name: "b", UID: "b"}}
	if diff := cmp.Diff(want, Marks(node(true, "b", "a"))); diff != "" {
		t.Errorf("Marks() (-want +got):\n%s", diff)
	}
}

func TestSucceeded(t *testing.T) {
	pod := func(uid, controller, node string) corev1.Pod {
		yes := true
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), OwnerReferences: []metav1.OwnerReference{{UID: types.UID(controller), Controller: &yes}}},
			Spec:       corev1.PodSpec{NodeName: node},
		}
	}
	before := []corev1.Pod{pod("1", "web", "n1"), pod("2", "web", "n2"), pod("3", "db", "n1")}
	one, both := []Deletion{{controller: "web"}}, []Deletion{{controller: "web"}, {controller: "db"}}
	for _, c := range []struct {
		name    string
		deleted []Deletion
		now     []corev1.Pod
		want    bool
	}{
		{"nothing was deleted", nil, before, true},
		{"what was refused or gone has no successor", []Deletion{{controller: "web", Refused: "no"}, {Gone: true}}, before, true},
		{"no successor yet", one, before, false},
		{"a successor waits for a node", one, append(before, pod("4", "web", "")), false},
		{"a successor has a node", one, append(before, pod("4", "web", "n2")), true},
		{"a pod of another controller is none", one, append(before, pod("4", "db", "n2")), false},
		{"one of two controllers waits", both, append(before, pod("4", "web", "n2")), false},
		{"each controller has one", both, append(before, pod("4", "web", "n2"), pod("5", "db", "n2")), true},
		{"two of one are not one of each", both, append(before, pod("4", "web", "n2"), pod("5", "web", "n2")), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Succeeded(c.deleted, before, c.now); got != c.want {
				t.Errorf("Succeeded() = %t, want %t", got, c.want)
			}
		})
	}
}
