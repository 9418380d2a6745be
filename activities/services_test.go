package activities

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// loses drops all packets of these services.
func loses(services ...v1beta1.NetworkService) func(*v1beta1.DisruptionSpec) {
	return func(spec *v1beta1.DisruptionSpec) {
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 100, Services: services}}
	}
}

// makeService makes a service with port 80 in the targets' namespace, and returns its
// cluster address.
func (c *testCluster) makeService(name string) string {
	c.Helper()
	made, err := c.Client.CoreV1().Services(c.Shop).Create(c.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}, Selector: map[string]string{"app": name}},
	}, metav1.CreateOptions{})
	c.Must(err)
	return made.Spec.ClusterIP
}

// hasEndpoints sets the ready endpoints of a service.
func (c *testCluster) hasEndpoints(service string, addresses ...string) {
	c.Helper()
	name, port, protocol := "http", int32(8080), corev1.ProtocolTCP
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}})
	}
	slices := c.Client.DiscoveryV1().EndpointSlices(c.Shop)
	if _, err := slices.Get(c.Context(), slice.Name, metav1.GetOptions{}); err != nil {
		_, err = slices.Create(c.Context(), slice, metav1.CreateOptions{})
		c.Must(err)
		return
	}
	_, err := slices.Update(c.Context(), slice, metav1.UpdateOptions{})
	c.Must(err)
}

// wantHosts wants these hosts in the annotation of the chaos pods of type network.
func (c *testCluster) wantHosts(ref v1beta1.DisruptionRef, want ...string) {
	c.Helper()
	found := 0
	for _, pod := range c.ChaosPodsOf(ref) {
		document, annotated := pod.Annotations[v1beta1.AnnotationResolvedHosts]
		if annotated != (pod.Labels[v1beta1.LabelDisruptionKind] == string(v1beta1.KindNetwork)) {
			c.Errorf("chaos pod %s of %s has the annotation: %t", pod.Name, pod.Labels[v1beta1.LabelDisruptionKind], annotated)
		}
		if !annotated {
			continue
		}
		found++
		var hosts []v1beta1.NetworkHost
		c.Must(json.Unmarshal([]byte(document), &hosts))
		got := []string{}
		for _, host := range hosts {
			got = append(got, fmt.Sprintf("%s:%d/%s", host.Host, host.Port, host.Protocol))
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			c.Errorf("chaos pod %s has %v, want %v", pod.Name, got, want)
		}
	}
	if found == 0 {
		c.Errorf("no chaos pod of the network")
	}
}

func TestServicesReachTheChaosPodsAndAreFollowed(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(2, nil)
	address := c.makeService("db")
	c.hasEndpoints("db", "10.250.0.1")
	ref := c.started("followed", func(spec *v1beta1.DisruptionSpec) {
		loses(v1beta1.NetworkService{Name: "db", Namespace: c.Shop}, v1beta1.NetworkService{Name: "db"})(spec)
		spec.CPUPressure = &v1beta1.CPUPressure{}
	})
	c.wantHosts(ref, address+":80/tcp", "10.250.0.1:8080/tcp")

	versions := func() (all []string) {
		for _, pod := range c.ChaosPodsOf(ref) {
			all = append(all, pod.ResourceVersion)
		}
		return all
	}
	before := versions()
	do[any](c, c.FollowServices, ref)
	if after := versions(); fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("nothing changed, and the versions of chaos pods went from %v to %v", before, after)
	}

	c.hasEndpoints("db", "10.250.0.2", "10.250.0.3")
	do[any](c, c.FollowServices, ref)
	c.wantHosts(ref, address+":80/tcp", "10.250.0.2:8080/tcp", "10.250.0.3:8080/tcp")

	c.Must(c.Client.CoreV1().Services(c.Shop).Delete(c.Context(), "db", metav1.DeleteOptions{}))
	do[any](c, c.FollowServices, ref)
	c.wantHosts(ref)
	c.wantEvent("ServiceNotDisturbed", "spec.network.services[0]", c.Shop+"/db does not exist")
}

func TestTooManyAddressesLaterChangeNothing(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	address := c.makeService("db")
	ref := c.started("grows", func(spec *v1beta1.DisruptionSpec) {
		loses(v1beta1.NetworkService{Name: "db"})(spec)
		for i := range 2047 {
			spec.Network.Hosts = append(spec.Network.Hosts, v1beta1.NetworkHost{Port: i + 1})
		}
		spec.Network.Hosts = spec.Network.Hosts[:2046]
	})
	c.hasEndpoints("db", "10.250.0.1", "10.250.0.2")
	do[any](c, c.FollowServices, ref)
	c.wantHosts(ref, address+":80/tcp")
	c.wantEvent("ServiceNotDisturbed", "need 2049 rules", "2048 are possible")
}

func TestServicesThatCannotBeDisturbedAreRefused(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	c.makeService("db")
	for name, spec := range map[string]corev1.ServiceSpec{
		"headless": {ClusterIP: corev1.ClusterIPNone, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		"alias":    {Type: corev1.ServiceTypeExternalName, ExternalName: "db.example.com"},
	} {
		_, err := c.Client.CoreV1().Services(c.Shop).Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		c.Must(err)
	}
	for name, test := range map[string]struct {
		service v1beta1.NetworkService
		want    string
	}{
		"not there":               {v1beta1.NetworkService{Name: "nowhere"}, "nowhere does not exist"},
		"not in that namespace":   {v1beta1.NetworkService{Name: "db", Namespace: "default"}, "default/db does not exist"},
		"a name of another host":  {v1beta1.NetworkService{Name: "alias"}, "put that into network.hosts"},
		"without any address":     {v1beta1.NetworkService{Name: "headless"}, "neither a cluster address nor a ready endpoint"},
		"a port it does not have": {v1beta1.NetworkService{Name: "db", Ports: []v1beta1.NetworkServicePort{{Name: "grpc"}}}, `has no port "grpc", it has "http" (80)`},
	} {
		t.Run(name, func(t *testing.T) {
			ref := c.Disruption("d-"+strings.ReplaceAll(name, " ", "-"), loses(test.service))
			plan := do[prepare.Plan](c, c.Prepare, ref)
			if !strings.Contains(plan.Rejected, "spec.network.services[0]: service ") || !strings.Contains(plan.Rejected, test.want) {
				t.Errorf("rejected because of %q, want it to name the service and say %q", plan.Rejected, test.want)
			}
			c.WantCondition(ref, v1beta1.ConditionAccepted, metav1.ConditionFalse, test.want)
		})
	}
}
