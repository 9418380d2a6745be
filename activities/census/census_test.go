package census

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// rule S16: running pods are counted, as they come and go, by namespace and in all.
func TestWhatThereIsIsCounted(t *testing.T) {
	c := apicluster.New(t)
	c.MakeTargets(2, nil)
	w, err := New(apiserver.Start(t), c.Chaos)
	c.Must(err)
	go w.Run(t.Context())
	c.Must(w.Sync(t.Context()))
	c.Eventually("both that were there before are counted", func() bool { in, _ := w.Pods(c.Shop); return in == 2 })
	_, others := w.Pods(c.Shop)
	others, nodes := others-2, w.Nodes()

	elsewhere := apicluster.New(t)
	elsewhere.MakeTargets(1, nil)
	made := c.MakeTargets(3, nil)
	inside := made[0].DeepCopy()
	inside.ObjectMeta = metav1.ObjectMeta{Namespace: c.Chaos, Name: "a-chaos-pod"}
	_, err = c.Client.CoreV1().Pods(c.Chaos).Create(t.Context(), inside, metav1.CreateOptions{})
	c.Must(err)
	_, err = c.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "counted-"}}, metav1.CreateOptions{})
	c.Must(err)
	// The last change of pods comes last in the watch.
	made[0].Status.Phase = corev1.PodSucceeded
	_, err = c.Client.CoreV1().Pods(c.Shop).UpdateStatus(t.Context(), made[0], metav1.UpdateOptions{})
	c.Must(err)
	c.Must(c.Client.CoreV1().Pods(c.Shop).Delete(t.Context(), made[1].Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	c.Must(c.Client.CoreV1().Pods(elsewhere.Shop).DeleteCollection(t.Context(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{}))
	elsewhere.MakeTargets(2, nil)
	c.Eventually("what is there is counted", func() bool {
		in, all := w.Pods(c.Shop)
		there, _ := w.Pods(elsewhere.Shop)
		chaos, _ := w.Pods(c.Chaos)
		return in == 3 && there == 2 && all == others+5 && chaos == 0 && w.Nodes() == nodes+1
	})
}

// A watch that restarts counts the existing objects, once.
func TestNamesAreCountedOnce(t *testing.T) {
	object := func(namespace, name string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Now())}}
	}
	n := &names{listed: make(chan struct{})}
	for _, do := range []func() error{
		func() error { return n.Add(object("shop", "gone-meanwhile")) },
		func() error { return n.Replace([]any{object("shop", "a"), object("cart", "a")}, "1") },
		func() error { return n.Replace([]any{object("shop", "a"), object("cart", "a")}, "2") },
		func() error { return n.Add(object("shop", "b")) },
		func() error { return n.Add(object("shop", "b")) },
		func() error { return n.Update(object("shop", "b")) },
		func() error { return n.Delete(object("shop", "unknown")) },
		func() error { return n.Delete(object("cart", "a")) },
		func() error { return n.Delete(object("cart", "a")) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	<-n.listed
	if in, all := n.count("shop"); in != 2 || all != 2 {
		t.Errorf("%d of %d, want 2 of 2", in, all)
	}
	if in, _ := n.count("cart"); in != 0 || len(n.by) != 1 {
		t.Errorf("%d are counted in a namespace that has none, and %d namespaces are kept", in, len(n.by))
	}
	kept, err := n.Transformer()(&metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", Annotations: map[string]string{"a": "b"}}})
	if m := kept.(*metav1.PartialObjectMetadata); err != nil || m.Name != "a" || m.Namespace != "shop" || m.Annotations != nil {
		t.Errorf("%+v is kept (%v), want the name alone", kept, err)
	}
}
