package world_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/test/world"
)

// TestGate: a gate lets exactly as many calls succeed as it is set to. Calls that
// it holds are made once it is open, or never if it drops them. The Meter counts
// the calls made, conflicts apart.
func TestGate(t *testing.T) {
	w := world.Start(t)
	gate := w.Gate()
	config, err := clientcmd.BuildConfigFromFlags("", strings.TrimPrefix(gate.Setting(), "KUBECONFIG="))
	w.Must(err)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	w.Must(err)
	pods := kube.CoreV1().Pods(w.Chaos)
	program, kill := context.WithCancel(t.Context())
	defer kill()
	create := func(ctx context.Context, i int) (*corev1.Pod, error) {
		return pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
		}, metav1.CreateOptions{})
	}
	there := func() int {
		list, err := w.Kube.CoreV1().Pods(w.Chaos).List(t.Context(), metav1.ListOptions{})
		w.Must(err)
		return len(list.Items)
	}

	const most, wanted = 2, 6
	gate.HoldAfter(most, w.CreatesChaosPod)
	var group sync.WaitGroup
	for i := range wanted {
		group.Go(func() { _, _ = create(program, i) }) // an error is what most of them get
	}
	world.Eventually(t, time.Minute, "calls succeed, the others are held", func() bool { return gate.Passed() == most && gate.Held() == wanted-most })
	if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a call that does not match is held: %v", err)
	}
	kill()
	group.Wait()
	gate.Drop()
	if n := there(); n != most {
		t.Errorf("%d pods are there, want %d", n, most)
	}
	gate.HoldAfter(0, w.CreatesChaosPod)
	var made *corev1.Pod
	group.Go(func() { made, err = create(t.Context(), wanted) })
	world.Eventually(t, time.Minute, "the call is held", func() bool { return gate.Held() == 1 })
	if n := there(); n != most {
		t.Errorf("%d pods are there, want %d", n, most)
	}
	gate.Open()
	group.Wait()
	w.Must(err)
	made.ResourceVersion = "1"
	if _, err := pods.Update(t.Context(), made, metav1.UpdateOptions{}); err == nil {
		t.Error("an update of an old version is taken")
	}
	if calls := w.Meter.Read(t); calls["POST pods"] != most+1 || calls["PUT-conflict pods"] != 1 || calls["PUT pods"] != 0 {
		t.Errorf("calls are%s\nwant %d POST and a conflict of a PUT", calls.Table(1), most+1)
	}
}
