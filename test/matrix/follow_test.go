package matrix

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// database is a Service, and its one EndpointSlice. It is headless, so that its
// addresses are the same in every run.
const database = "db"

var network = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{
	Drop: 30, Services: []v1beta1.NetworkService{{Name: database}},
}}

// The addresses behind the Service.
const firstEndpoint, secondEndpoint = "10.9.0.1", "10.9.0.2"

func parts(addresses ...string) *discoveryv1.EndpointSlice {
	name, port, protocol := "sql", int32(5432), corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: database, Labels: map[string]string{discoveryv1.LabelServiceName: database}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	return slice
}

// serviceDisrupted is a disruption of the traffic to the Service.
func (r *run) serviceDisrupted() error {
	_, err := r.world.Kube.CoreV1().Services(r.shop).Create(r.ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: database},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "sql", Port: 5432, Protocol: corev1.ProtocolTCP}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if _, err := r.world.Kube.DiscoveryV1().EndpointSlices(r.shop).Create(r.ctx, parts(firstEndpoint), metav1.CreateOptions{}); err != nil {
		return err
	}
	return r.disrupted()
}

// serviceChanges is a Service that gets an endpoint, loses another one, and is deleted.
func (r *run) serviceChanges() error {
	slices := r.world.Kube.DiscoveryV1().EndpointSlices(r.shop)
	for _, addresses := range [][]string{{firstEndpoint, secondEndpoint}, {secondEndpoint}} {
		err := r.written("update endpointslices", []string{bridge}, func() (metav1.Object, error) {
			return slices.Update(r.ctx, parts(addresses...), metav1.UpdateOptions{})
		})
		if err != nil {
			return err
		}
		err = r.until("the injector has the addresses of the Service", func() bool {
			pods, err := r.world.Kube.CoreV1().Pods(r.chaos).List(r.ctx, metav1.ListOptions{})
			if err != nil || len(pods.Items) != 1 {
				return false
			}
			hosts := pods.Items[0].Annotations[v1beta1.AnnotationResolvedHosts]
			return strings.Contains(hosts, firstEndpoint) == (addresses[0] == firstEndpoint) && strings.Contains(hosts, secondEndpoint)
		})
		if err != nil {
			return err
		}
		if err := r.quiet(); err != nil {
			return err
		}
	}
	return r.deleted()
}

// leaveService deletes the Service and its EndpointSlice.
func (r *run) leaveService() error {
	err := r.world.Kube.CoreV1().Services(r.shop).Delete(r.ctx, database, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	err = r.world.Kube.DiscoveryV1().EndpointSlices(r.shop).Delete(r.ctx, database, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	return nil
}
