package podops

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/kuperator"
)

// rule L16: no worker runs, and Temporal carries out nothing.
func TestAProtectionEnds(t *testing.T) {
	const long, scaling = time.Hour, podops.LabelOperating + "/scale"
	for _, test := range []struct {
		name string
		// until is its end, limit how long others wait at most.
		until, limit time.Duration
		// then is what happens to a pod that is protected.
		then    func(c *cluster, d *v1beta1.Disruption, key string)
		message string
	}{
		{"its time is over", 0, long, nil, "its time was over"},
		{"others have waited for long enough", long, time.Second, func(c *cluster, _ *v1beta1.Disruption, _ string) {
			c.patch("web-0", []byte(`{"metadata":{"labels":{"`+scaling+`":"1"}}}`))
		}, "others have waited for the pod for as long as they have to: label " + scaling},
		{"it is being deleted", long, time.Second, func(c *cluster, _ *v1beta1.Disruption, _ string) {
			none := int64(0)
			c.Must(c.client.CoreV1().Pods(c.Namespace).Delete(c.T.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: &none}))
		}, ""},
		{"somebody took its label off", long, long, func(c *cluster, _ *v1beta1.Disruption, key string) {
			c.patch("web-0", []byte(`{"metadata":{"labels":{"`+key+`":null}}}`))
		}, "its label "},
		{"its disruption went by force", long, long, func(c *cluster, d *v1beta1.Disruption, _ string) {
			c.Must(c.Kube.Delete(c.T.Context(), d))
		}, "its disruption is over or gone"},
		{"its disruption is over", long, long, func(c *cluster, d *v1beta1.Disruption, _ string) {
			c.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
		}, "its disruption is over or gone"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newProtected(t)
			d := c.Create("calm")
			operation := podops.OfDisruption(d.UID)
			c.pod("web-0", "ReplicaSet")
			c.serve("web-0", true)
			pod := c.get("web-0")
			_, err := c.client.CoreV1().Pods(c.Namespace).Patch(t.Context(), "web-0", types.StrategicMergePatchType,
				operation.Protect(pod, time.Now().Add(test.until), test.limit), metav1.PatchOptions{})
			c.Must(err)
			c.Start()
			if test.then != nil {
				test.then(c, d, podops.LabelProtected+"/"+operation.ID)
			}
			bridgetest.Eventually(t, bridgetest.Soon, "nothing of it is left", func() bool { return len(podops.Protections(c.get("web-0"))) == 0 })
			if pod = c.get("web-0"); len(pod.Finalizers) != 1 || pod.Finalizers[0] != traffic {
				t.Errorf("finalizers = %v, want that of others", pod.Finalizers)
			}
			bridgetest.Eventually(t, bridgetest.Soon, "the pod has the event", func() bool { return strings.Contains(c.eventOn("Pod"), test.message) })
		})
	}
}

// A protection whose time is not over stays. The bridge writes once until when others wait.
func TestAProtectionStays(t *testing.T) {
	c := newProtected(t)
	d := c.Create("calm")
	operation := podops.OfDisruption(d.UID)
	key := podops.LabelProtected + "/" + operation.ID
	c.pod("web-0", "ReplicaSet")
	_, err := c.client.CoreV1().Pods(c.Namespace).Patch(t.Context(), "web-0", types.StrategicMergePatchType,
		operation.Protect(c.get("web-0"), time.Now().Add(2*time.Hour), time.Hour), metav1.PatchOptions{})
	c.Must(err)
	c.Start()
	c.patch("web-0", []byte(`{"metadata":{"labels":{"`+podops.LabelOperating+`/scale":"1"}}}`))
	var limit string
	bridgetest.Eventually(t, bridgetest.Soon, "the pod has the time until when others wait", func() bool {
		limit = c.get("web-0").Labels[key]
		return limit != "" && !strings.Contains(limit, ".")
	})
	c.Must(c.Stop())
	c.Start() // a restarted bridge begins no new time
	c.patch("web-0", []byte(`{"metadata":{"labels":{"`+podops.LabelOperating+`/other":"1"}}}`))
	c.Seen(c.get("web-0"))
	if pod := c.get("web-0"); pod.Labels[key] != limit || !operation.Protects(pod) {
		t.Errorf("labels = %v, finalizers = %v, want it as it was: %s", pod.Labels, pod.Finalizers, limit)
	}
	if event := c.eventOn("Pod"); event != "" {
		t.Errorf("event %q about what is not over", event)
	}
}

// A bridge whose watch is late may see a protected pod that was deleted meanwhile. It must
// not report that pod as released.
func TestAProtectionOfADeletedPodIsNotReported(t *testing.T) {
	c := newProtected(t)
	operation := podops.OfDisruption("nobody")
	c.pod("web-0", "ReplicaSet")
	pods := c.client.CoreV1().Pods(c.Namespace)
	seen, err := pods.Patch(t.Context(), "web-0", types.StrategicMergePatchType,
		operation.Protect(c.get("web-0"), time.Now(), time.Hour), metav1.PatchOptions{})
	c.Must(err)
	p := &protections{client: late{c.Kube, seen}, live: c.Kube, now: time.Now, chaosNamespace: c.ChaosNamespace}
	_, err = pods.Patch(t.Context(), "web-0", types.StrategicMergePatchType, operation.Unprotect(seen.UID), metav1.PatchOptions{})
	c.Must(err)
	none := int64(0)
	c.Must(pods.Delete(t.Context(), "web-0", metav1.DeleteOptions{GracePeriodSeconds: &none}))
	_, err = p.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(seen)})
	c.Must(err)
	if event := c.eventOn("Pod"); event != "" {
		t.Errorf("event %q about a pod that is gone", event)
	}
}

// The worker has removed the protection because the pod is clean, and the bridge's watch is
// late. A report that the pod is released clean or not would be wrong.
func TestAProtectionThatTheWorkerRemovedIsNotReported(t *testing.T) {
	c := newProtected(t)
	operation := podops.OfDisruption("nobody")
	c.pod("web-0", "ReplicaSet")
	pods := c.client.CoreV1().Pods(c.Namespace)
	seen, err := pods.Patch(t.Context(), "web-0", types.StrategicMergePatchType,
		operation.Protect(c.get("web-0"), time.Now(), time.Hour), metav1.PatchOptions{})
	c.Must(err)
	p := &protections{client: late{c.Kube, seen}, live: c.Kube, now: time.Now, chaosNamespace: c.ChaosNamespace}
	_, err = pods.Patch(t.Context(), "web-0", types.StrategicMergePatchType, operation.Unprotect(seen.UID), metav1.PatchOptions{})
	c.Must(err)
	_, err = p.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(seen)})
	c.Must(err)
	if event := c.eventOn("Pod"); event != "" {
		t.Errorf("event %q about a protection that was over already", event)
	}
}

// late is a client whose cache still has the pod as it was.
type late struct {
	client.Client
	pod *corev1.Pod
}

func (l late) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	l.pod.DeepCopyInto(into.(*corev1.Pod))
	return nil
}

// newProtected has a bridge with the controller of protected pods, and no driver.
func newProtected(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{drive: func() {}}
	c.Bridge = bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, _ *temporal.Workflows) error {
		return SetupProtections(m, b.ChaosNamespace)
	}))
	var err error
	c.client, err = kubernetes.NewForConfig(apiserver.Start(t))
	c.Must(err)
	return c
}

// eventOn is the message of the event that a protection is over, on an object of that kind.
func (c *cluster) eventOn(kind string) string { return c.warning("ProtectionOver", kind) }

// warning is the message of the warning of that reason.
func (c *cluster) warning(reason, kind string) string {
	c.T.Helper()
	list, err := c.client.CoreV1().Events(c.Namespace).List(c.T.Context(), metav1.ListOptions{})
	c.Must(err)
	for _, event := range list.Items {
		if event.InvolvedObject.Kind == kind && event.Reason == reason && event.Type == corev1.EventTypeWarning {
			return event.Message
		}
	}
	return ""
}

// A worker that lost its task may ask for a pod when its disruption is over: only the
// bridge releases the pod. rules L6, L8
func TestAnOperationWithoutADisruptionEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		// then is what happens before the pod is asked for.
		then func(c *cluster, d *v1beta1.Disruption)
		ends bool
	}{
		{"the disruption went by force", func(c *cluster, d *v1beta1.Disruption) { c.Must(c.Kube.Delete(c.T.Context(), d)) }, true},
		{"it is over", func(c *cluster, d *v1beta1.Disruption) {
			c.SetStatus(d, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseFinished })
		}, true},
		{"it went by force, and its target has a chaos pod", func(c *cluster, d *v1beta1.Disruption) {
			c.ChaosPod(d, "chaos-web-0", c.get("web-0"))
			c.Must(c.Kube.Delete(c.T.Context(), d))
		}, false},
		{"it goes on", func(*cluster, *v1beta1.Disruption) {}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newProtected(t)
			d := c.Create("calm")
			operation := podops.OfDisruption(d.UID)
			c.pod("web-0", "ReplicaSet")
			c.Start()
			test.then(c, d)
			c.patch("web-0", operation.Begin(c.get("web-0").UID, time.Now()))
			if !test.ends {
				orphan := podops.OfDisruption("nobody") // this pod is read later
				c.pod("web-1", "ReplicaSet")
				c.patch("web-1", orphan.Begin(c.get("web-1").UID, time.Now()))
				c.until("web-1", "no label of it is left", func(pod *corev1.Pod) bool { return !orphan.On(pod) })
				if pod := c.get("web-0"); !operation.Begun(pod) {
					t.Errorf("labels = %v, want that of the operation", pod.Labels)
				}
				return
			}
			c.until("web-0", "no label of it is left", func(pod *corev1.Pod) bool { return !operation.On(pod) })
			// A person removes the label first, and the other label then has no owner.
			c.patch("web-0", []byte(`{"metadata":{"labels":{"`+podops.LabelOperationType+"/"+operation.ID+`":"chaos"}}}`))
			c.until("web-0", "the label that was left of it is gone", func(pod *corev1.Pod) bool { return !operation.On(pod) })
			bridgetest.Eventually(t, bridgetest.Soon, "the pod has the event", func() bool { return strings.Contains(c.warning("OperationOver", "Pod"), operation.ID) })
		})
	}
}

// A person removed a label of the operation, so Kuperator refuses or ignores its end. The
// bridge ends it, and the pod returns to service. rule L6
func TestAnOperationThatLacksALabelEnds(t *testing.T) {
	for _, kind := range []string{podops.LabelOperating, podops.LabelOperationType} {
		t.Run(kind, func(t *testing.T) {
			c := newProtected(t)
			kuperator.Serve(t, c.client, c.Namespace)
			c.drive = func() { c.Must(kuperator.Settle(t.Context(), c.client, c.Namespace, true)) }
			c.pod("web-0", "ReplicaSet", func(pod *corev1.Pod) {
				pod.Annotations = nil
				if kind == podops.LabelOperating { // it is not given
					pod.Finalizers = []string{traffic}
				}
			})
			c.drive()
			operation := podops.OfDisruption("nobody")
			c.patch("web-0", operation.Begin(c.get("web-0").UID, time.Now()))
			c.drive()
			c.patch("web-0", []byte(`{"metadata":{"labels":{"`+kind+"/"+operation.ID+`":null}}}`))
			if !operation.On(c.get("web-0")) {
				t.Fatal("no label is left of it: this proves nothing")
			}
			c.Start()
			c.until("web-0", "no label of it is left, and it is in service", func(pod *corev1.Pod) bool {
				available, _ := podops.Available(pod)
				return available && len(left(pod)) == 0
			})
		})
	}
}

// A bridge whose watch is late may see an operation that its driver has ended meanwhile. It
// leaves the pod alone and reports nothing.
func TestAnOperationThatIsOverIsNotEndedAgain(t *testing.T) {
	c := newProtected(t)
	operation := podops.OfDisruption("nobody")
	c.pod("web-0", "ReplicaSet")
	c.patch("web-0", operation.Begin(c.get("web-0").UID, time.Now()))
	seen := c.get("web-0")
	c.patch("web-0", operation.Strip(seen))
	p := &protections{client: c.Kube, live: c.Kube, now: time.Now, chaosNamespace: c.ChaosNamespace}
	c.Must(p.endOrphan(t.Context(), seen, operation))
	if pod := c.get("web-0"); operation.On(pod) {
		t.Errorf("labels = %v, want none of the operation", pod.Labels)
	}
	if event := c.warning("OperationOver", "Pod"); event != "" {
		t.Errorf("event %q about an operation that was over", event)
	}
	c.patch("web-0", operation.Begin(seen.UID, time.Now()))
	c.Must(p.endOrphan(t.Context(), c.get("web-0"), operation))
	if pod, event := c.get("web-0"), c.warning("OperationOver", "Pod"); operation.On(pod) || event == "" {
		t.Errorf("labels = %v, event %q; want no labels, and an event", pod.Labels, event)
	}
}
