package v1beta1_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Disrupt a service from a Go program: validate the Disruption, create it, read whether the
// fault is injected, and end it early. The program needs the ClusterRole squall-disruptions
// in the namespace.
func Example() {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	// In a cluster: client.New(config.GetConfigOrDie(), client.Options{Scheme: scheme}), where
	// config is sigs.k8s.io/controller-runtime/pkg/client/config.
	var kube client.Client = fake.NewClientBuilder().WithScheme(scheme).Build()

	half := intstr.FromString("50%")
	lossy := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lossy"},
		Spec: v1beta1.DisruptionSpec{
			Selector: map[string]string{"app": "cart"},
			Count:    &half,
			Duration: &v1beta1.Duration{Duration: 5 * time.Minute},
			Faults:   v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 40}},
		},
	}
	if err := disrupt(context.Background(), kube, lossy); err != nil {
		fmt.Println(err)
	}
	// Output:
	// shop/lossy injected: false
	// ended
}

func disrupt(ctx context.Context, kube client.Client, d *v1beta1.Disruption) error {
	// The API server checks the same rules. Here they give all errors at once.
	checked := d.DeepCopy()
	checked.Default()
	if err := checked.Validate().ToAggregate(); err != nil {
		return err
	}
	if err := kube.Create(ctx, d); err != nil {
		return err
	}
	// Poll or watch until Ready is True, or Stalled is True: then it failed.
	if err := kube.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		return err
	}
	ready := meta.IsStatusConditionTrue(d.Status.Conditions, v1beta1.ConditionReady)
	fmt.Printf("%s/%s injected: %t\n", d.Namespace, d.Name, ready)
	// A deletion ends the disruption. The object disappears when everything is cleaned up.
	if err := kube.Delete(ctx, d); err != nil {
		return err
	}
	fmt.Println("ended")
	return nil
}

// The API refuses what cannot work, and the message names the field.
func ExampleDisruption_Validate() {
	one := intstr.FromInt32(1)
	d := &v1beta1.Disruption{Spec: v1beta1.DisruptionSpec{
		Selector: map[string]string{"app": "cart"},
		Count:    &one,
		Faults:   v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 140}},
	}}
	d.Default()
	for _, err := range d.Validate() {
		fmt.Println(err.Field)
	}
	// Output:
	// spec.network.drop
}
