package podops

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/kube/podops"
)

// newGated is a cluster in which pods that opted in get the gate.
func newGated(t *testing.T) *cluster {
	t.Helper()
	c := newServed(t, "readiness-gate", ReadinessGatePath, Settings{ReadinessGate: true}, nil)
	c.awaitGates()
	return c
}

func (c *cluster) awaitGates() {
	c.T.Helper()
	bridgetest.Eventually(c.T, bridgetest.Soon, "pods that opted in get the gate", func() bool { return len(c.gatesOf(c.Namespace, nil)) == 1 })
}

// gatesOf creates a pod that opted in, without a gate in its template, by a dry run in the
// namespace. It returns the pod's gates.
func (c *cluster) gatesOf(namespace string, change func(*corev1.Pod)) (types []corev1.PodConditionType) {
	c.T.Helper()
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "i"}}}}
	pod.Name, pod.Labels = "asked", map[string]string{podops.LabelManaged: podops.ManagedValue}
	if change != nil {
		change(pod)
	}
	made, err := c.client.CoreV1().Pods(namespace).Create(c.T.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	c.Must(err)
	for _, gate := range made.Spec.ReadinessGates {
		types = append(types, gate.ConditionType)
	}
	return types
}

func bare(pod *corev1.Pod) { pod.Spec.ReadinessGates = nil }

// rule L22: pods that opted in get the gate, beside other gates. No other pod gets it, nor
// does one of Squall itself.
func TestPodsGetTheGate(t *testing.T) {
	c := newGated(t)
	with := func(types ...corev1.PodConditionType) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, kind := range types {
				pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: kind})
			}
		}
	}
	const others, ours = "load-balancer/attached", corev1.PodConditionType(podops.ReadinessGate)
	for _, test := range []struct {
		name, namespace string
		change          func(*corev1.Pod)
		want            []corev1.PodConditionType
	}{
		{"it opted in", c.Namespace, nil, []corev1.PodConditionType{ours}},
		{"it has the gate of somebody else", c.Namespace, with(others), []corev1.PodConditionType{others, ours}},
		{"it has the gate", c.Namespace, with(ours, others), []corev1.PodConditionType{ours, others}},
		{"it opted out", c.Namespace, func(pod *corev1.Pod) { pod.Labels[podops.LabelManaged] = "false" }, nil},
		{"it says nothing", c.Namespace, func(pod *corev1.Pod) { pod.Labels = nil }, nil},
		{"it is Squall's own", c.system, nil, nil},
		{"it is a chaos pod", c.ChaosNamespace, nil, nil},
		{"it is the cluster's", metav1.NamespaceSystem, nil, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, c.gatesOf(test.namespace, test.change)); diff != "" {
				t.Errorf("readiness gates (-want +got):\n%s", diff)
			}
		})
	}
}

// rules L17, L18, L21, L22: a Deployment's pod whose template has no gate is moved from
// its creation on as one whose template has it.
func TestAnOperationOnAPodThatGotTheGate(t *testing.T) {
	c := newGated(t)
	c.pod("web-0", "ReplicaSet", bare)
	c.wholeOperation("web-0")
	if status := gate(c.get("web-0")); status != corev1.ConditionTrue {
		t.Errorf("the condition of the gate is %q, want it True", status)
	}
}

// rules L12, L22: while no bridge answers, pods are created as written. They stay
// unmanaged, also when the bridge is back.
func TestWithoutTheBridgePodsAreCreatedWithoutTheGate(t *testing.T) {
	c := newGated(t)
	c.Must(c.Stop())
	c.pod("web-0", "ReplicaSet", bare)
	c.Start()
	c.awaitGates()
	c.pod("web-1", "ReplicaSet", bare)
	c.until("web-1", "a pod that is created later is moved", podops.Managed)
	if pod := c.get("web-0"); len(pod.Spec.ReadinessGates) > 0 || podops.Managed(pod) || gate(pod) != "" {
		t.Errorf("gates %v, conditions %v; want the pod as it was written", pod.Spec.ReadinessGates, pod.Status.Conditions)
	}
}

// rules L14, L22: where Kuperator is installed, it adds the gate and this webhook does not.
// The webhook resumes when Kuperator is gone.
func TestKuperatorAddsTheGateItself(t *testing.T) {
	c := newGated(t)
	away := c.kuperatorThere()
	bridgetest.Eventually(t, bridgetest.Soon, "the webhook stands down", func() bool { return len(c.gatesOf(c.Namespace, nil)) == 0 })
	away()
	c.awaitGates()
}

// A replica that does not lead also answers and knows of Kuperator. It moves no pod and
// does not report that it stands down.
func TestAReplicaThatDoesNotLeadAddsTheGate(t *testing.T) {
	c := newGated(t)
	c.Must(c.Stop())
	holder, long, now := "another", int32(3600), metav1.NowMicro()
	c.Must(c.Kube.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.system, Name: "bridges"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &long, AcquireTime: &now, RenewTime: &now},
	}))
	c.Options = func(o *manager.Options) {
		o.LeaderElection, o.LeaderElectionNamespace, o.LeaderElectionID = true, c.system, "bridges"
	}
	c.Start()
	c.awaitGates()
	c.kuperatorThere()
	bridgetest.Eventually(t, bridgetest.Soon, "the webhook stands down", func() bool { return len(c.gatesOf(c.Namespace, nil)) == 0 })
	c.showsStandingDown(0)
	select {
	case <-c.Manager.Elected():
		t.Error("the replica leads: this proves nothing")
	default:
	}
}

// blind reads nothing.
type blind struct{ client.Client }

func (blind) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("no cache yet")
}

// A bridge that does not know which driver moves pods prevents no pod from being created or
// ready. It reports what it lacks.
func TestNoGateIsAddedWhileKuperatorIsUnknown(t *testing.T) {
	request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: "shop", Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
		Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"kusionstack.io/control":"true"}}}`)},
	}}
	got := gates{driver: &reconciler{client: blind{}}}.Handle(t.Context(), request)
	if !got.Allowed || got.Patch != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "no readiness gate") || !strings.Contains(got.Warnings[0], "no cache yet") {
		t.Errorf("Handle = %+v, want the pod as it is, with a warning", got.AdmissionResponse)
	}
}
