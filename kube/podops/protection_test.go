package podops

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/test/apiserver"
)

var (
	protecting = OfDisruption("u")
	finalizer  = FinalizerPrefix + protecting.ID
)

// rule L16, for any form of a pod.
func TestProtectionsEnd(t *testing.T) {
	now := time.Unix(1700000000, 0)
	pod := func(value string, others ...string) *corev1.Pod {
		p := managed(corev1.ConditionFalse)
		p.Finalizers = []string{FinalizerPrefix + "traffic", FinalizerPrefix + "chaos-monkey", finalizer}
		p.Labels[protecting.label(LabelProtected)] = value
		for _, key := range others {
			p.Labels[key] = "1"
		}
		return p
	}
	stripped, bare := pod(""), pod("1700000060.120")
	delete(stripped.Labels, protecting.label(LabelProtected))
	bare.Finalizers = nil
	deleted := pod("1700000060.10")
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	const scale = LabelOperating + "/scale"
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		// over is part of why it ends; shortened is the new end, if that changes.
		over, shortened string
		wait            time.Duration
	}{
		{"its time is not over", pod("1700000060.120"), "", "", time.Minute},
		{"its time is over", pod("1700000000.120"), "its time was over at 2023-11-14T22:13:20Z", "", 0},
		{"ours has the pod still", pod("1700000060.120", LabelOperating+"/"+protecting.ID, LabelOperate+"/"+protecting.ID), "", "", time.Minute},
		{"somebody begins to wait", pod("1700000060.10", scale), "", `"1700000010"`, 10 * time.Second},
		{"somebody deletes it", deleted, "", `"1700000010"`, 10 * time.Second},
		{"and its end is sooner anyway", pod("1700000060.120", scale), "", "", time.Minute},
		{"somebody waits, as is said already", pod("1700000010", scale), "", "", 10 * time.Second},
		{"who waited is away again", pod("1700000010"), "", "", 10 * time.Second},
		{"somebody has waited for long enough", pod("1699999999", scale), "others have waited for the pod for as long as they have to: label " + scale, "", 0},
		{"its label is gone", stripped, "its label protected-until.chaos.squall.dev/chaos-", "", 0},
		{"its label cannot be read", pod("soon"), "its label ", "", 0},
		{"only its label is left", bare, "", "", time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := Protections(test.pod)
			if len(found) != 1 || found[0].Operation != protecting {
				t.Fatalf("protections = %+v, want ours", found)
			}
			if why := found[0].Over(test.pod, now); !strings.Contains(why, test.over) || (why == "") != (test.over == "") {
				t.Errorf("over: %q, want %q", why, test.over)
			}
			if test.over != "" {
				return
			}
			patch, wait := found[0].Next(test.pod, now)
			if !strings.Contains(string(patch), test.shortened) || (patch == nil) != (test.shortened == "") || wait != test.wait {
				t.Errorf("next: %s in %s, want %q in %s", patch, wait, test.shortened, test.wait)
			}
		})
	}
}

// An API server accepts the patches beside other finalizers, and refuses a patch that
// is based on an old version.
func TestPatchesOfAProtection(t *testing.T) {
	client, err := kubernetes.NewForConfig(apiserver.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pods, traffic := client.CoreV1().Pods(namespace.Name), FinalizerPrefix+"traffic"
	before, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}, Finalizers: []string{traffic}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body []byte) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), "web", types.StrategicMergePatchType, body, metav1.PatchOptions{})
	}
	after, err := patch(protecting.Protect(before, time.Unix(1700000000, 0), time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(slices.Values(after.Finalizers)); !slices.Equal(got, []string{finalizer, traffic}) || after.Labels[protecting.label(LabelProtected)] != "1700000000.60" {
		t.Errorf("finalizers %v, labels %v, want ours beside the other one", got, after.Labels)
	}
	if again := protecting.Protect(after, time.Unix(1800000000, 0), time.Minute); again != nil {
		t.Errorf("protected again: %s", again)
	}
	if _, err := patch(protecting.Protect(before, time.Unix(1700000000, 0), time.Minute)); !apierrors.IsConflict(err) {
		t.Errorf("a patch that follows from an old version: %v, want it refused", err)
	}
	if _, err := patch(protecting.Unprotect("another")); !apierrors.IsInvalid(err) {
		t.Errorf("a patch for another pod of the name: %v, want it refused", err)
	}
	for range 2 { // a second call changes nothing
		after, err = patch(protecting.Unprotect(before.UID))
		if err != nil || !slices.Equal(after.Finalizers, []string{traffic}) || len(after.Labels) != 1 {
			t.Errorf("%v %v %v, want what was before", after.Finalizers, after.Labels, err)
		}
	}
}
