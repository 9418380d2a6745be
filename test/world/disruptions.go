package world

import (
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/objects"
	"github.com/squall-chaos/squall/test/promise"
)

// Disruption is one of count of the targets, by pressure on the processor, for
// two hours. The caller may change it before Create.
func (w *World) Disruption(name string, count int) *v1beta1.Disruption {
	d := objects.Disruption(w.Shop, name, intstr.FromInt(count))
	d.Spec.Duration.Duration = 2 * time.Hour
	return d
}

// Create begins a disruption and returns it.
func (w *World) Create(d *v1beta1.Disruption) *v1beta1.Disruption {
	w.Helper()
	w.Must(w.Disruptions.Create(w.Context(), d))
	return d
}

// See brings d up to date from a watch; false if it is gone.
func (w *World) See(d *v1beta1.Disruption) bool {
	w.Helper()
	var now v1beta1.Disruption
	err := w.seen.Get(w.Context(), client.ObjectKeyFromObject(d), &now)
	if apierrors.IsNotFound(err) || err == nil && now.UID != d.UID {
		return false
	}
	w.Must(err)
	*d = now
	return true
}

// Injected waits until as many targets as d wants are injected.
func (w *World) Injected(d *v1beta1.Disruption) {
	w.Helper()
	want := fmt.Sprintf("%d/%[1]d", d.Spec.Count.IntValue())
	Eventually(w, w.Patience, d.Name+" is injected, "+want, func() bool {
		return w.See(d) && d.Status.InjectionStatus == v1beta1.Injected && d.Status.Targets == want
	})
}

// Delete asks for the end of d and waits until it is gone.
func (w *World) Delete(d *v1beta1.Disruption) {
	w.Helper()
	w.Must(w.Disruptions.Delete(w.Context(), d))
	w.Vanishes(d)
	w.NothingLeft(d)
}

// Vanishes waits until d is gone.
func (w *World) Vanishes(d *v1beta1.Disruption) {
	w.Helper()
	Eventually(w, w.Patience, d.Name+" is gone", func() bool { return !w.See(d) })
}

// NothingLeft wants neither chaos pods nor records of d (rule 6).
func (w *World) NothingLeft(d *v1beta1.Disruption) {
	w.Helper()
	left, err := promise.Cluster{Kube: w.Kube, Chaos: w.Chaos}.Left(w.Context(), d.UID)
	w.Must(err)
	if len(left) > 0 {
		w.Errorf("%s is gone and left %v", d.Name, left)
	}
}
