// Package hosts resolves the services that a network disruption names to addresses and
// ports, in the form of network.hosts. It reads the cluster and changes nothing.
package hosts

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// MostRules bounds the hosts of a network disruption.
const MostRules = 2048

// OfServices returns the hosts of a disruption's services now. problems lists what
// cannot be disrupted, and how to fix that; the rest is returned anyway. err is an
// error of the cluster.
func OfServices(ctx context.Context, client kubernetes.Interface, d *v1beta1.Disruption) (found []v1beta1.NetworkHost, problems []string, err error) {
	for i, want := range d.Spec.Network.Services {
		want = want.In(d.Namespace)
		service, parts, err := read(ctx, client, want)
		if err != nil {
			return nil, nil, fmt.Errorf("look up service %s/%s: %w", want.Namespace, want.Name, err)
		}
		some, problem := kube.ServiceHosts(want, service, parts, d.UID)
		if problem != nil {
			problems = append(problems, fmt.Sprintf("spec.network.services[%d]: %s", i, strings.ReplaceAll(problem.Error(), "\n", "; ")))
		}
		found = append(found, some...)
	}
	return Unique(found), problems, nil
}

// read returns nil if the service does not exist.
func read(ctx context.Context, client kubernetes.Interface, want v1beta1.NetworkService) (*corev1.Service, []discoveryv1.EndpointSlice, error) {
	service, err := client.CoreV1().Services(want.Namespace).Get(ctx, want.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var parts []discoveryv1.EndpointSlice
	err = kube.Pages(ctx, client.DiscoveryV1().EndpointSlices(want.Namespace).List, metav1.ListOptions{LabelSelector: kube.SlicesOf(want.Name)},
		func(page *discoveryv1.EndpointSliceList) { parts = append(parts, page.Items...) })
	return service, parts, err
}

// TooMany returns a text if the resolved hosts and those of the spec need too many
// rules; empty if not. A name in the spec counts once here, and in the injector once
// for each of its addresses.
func TooMany(n *v1beta1.NetworkDisruption, resolved []v1beta1.NetworkHost) string {
	listed := len(n.Hosts) + len(n.AllowedHosts)
	if listed+len(resolved) <= MostRules {
		return ""
	}
	return fmt.Sprintf("spec.network: %d hosts and allowedHosts and %d addresses of services and cloud need %d rules; at most %d are possible. "+
		"Name fewer services, some of their ports, or a percentage of their addresses", listed, len(resolved), listed+len(resolved), MostRules)
}

// Unique keeps each host once, in the given order. It is never nil: no hosts are an
// empty list.
func Unique(some ...[]v1beta1.NetworkHost) []v1beta1.NetworkHost {
	seen, kept := map[v1beta1.NetworkHost]bool{}, []v1beta1.NetworkHost{}
	for _, host := range slices.Concat(some...) {
		if !seen[host] {
			seen[host], kept = true, append(kept, host)
		}
	}
	return kept
}
