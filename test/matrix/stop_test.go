package matrix

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// An EmergencyStop is of the whole cluster, which all slots share: a proxy shows a
// slot's programs none but its own.

// stopOf is the name of a slot's EmergencyStop.
func (s *slot) stopOf() string { return "stop-of-" + s.shop }

// own limits what a program lists or watches of cluster-scoped objects to those of its
// slot: a parameter of the query, and what is added to its value.
func (k *kubeProxy) own(c kubeCall) (parameter, selector string) {
	if c.verb != "list" && c.verb != "watch" {
		return "", ""
	}
	switch c.resource {
	case "emergencystops":
		return "fieldSelector", "metadata.name=" + k.slot.stopOf()
	case "disruptionpolicies":
		return "fieldSelector", "metadata.name=" + k.slot.policyOf()
	case "nodes":
		return "labelSelector", fmt.Sprintf("%s in (%s,%s)", labelSlot, k.slot.shop, allSlots)
	}
	return "", ""
}

// stopped is a person who stops everything while the disruption goes on, asks for
// another one, which is refused, and calls the stop off: nothing comes back.
func (r *run) stopped() error {
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: r.stopOf()}, Spec: v1beta1.EmergencyStopSpec{Reason: "payment is down"}}
	r.current.names.know(stop.Name, "STOP")
	err := r.written("create emergencystops", []string{bridge, worker}, func() (metav1.Object, error) { return stop, r.world.Disruptions.Create(r.ctx, stop) })
	if err != nil {
		return err
	}
	clean := func(stopped int) func() bool {
		return func() bool {
			return r.world.Disruptions.Get(r.ctx, client.ObjectKeyFromObject(stop), stop) == nil &&
				stop.Status.Stopped == stopped && meta.IsStatusConditionTrue(stop.Status.Conditions, v1beta1.ConditionClean)
		}
	}
	if err := r.until("all is clean", clean(1)); err != nil {
		return err
	}
	if err := r.settled(); err != nil {
		return err
	}
	late := r.disruption()
	late.Name = "late"
	if err := r.world.Disruptions.Create(r.ctx, late); err != nil {
		return err
	}
	r.knows(late)
	if err := r.settled(); err != nil {
		return err
	}
	if err := r.until("the stop counts what it refused", clean(2)); err != nil {
		return err
	}
	if err := r.quiet(); err != nil {
		return err
	}
	r.parentStatus = stop.Status
	if err := r.world.Disruptions.Delete(r.ctx, stop); err != nil {
		return err
	}
	return r.quiet()
}

// settled waits until the disruption that began last has ended, and Squall lets it be.
func (r *run) settled() error {
	return r.until(r.d.Name+" has ended", func() bool {
		return r.see() && slices.Contains([]v1beta1.Phase{v1beta1.PhaseFinished, v1beta1.PhaseRejected}, r.d.Status.Phase) && len(r.d.Finalizers) == 0
	})
}
