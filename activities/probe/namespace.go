package probe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"

	"github.com/squall-chaos/squall/kube"
)

// Namespace is the watched state of a disruption's namespace.
type Namespace struct {
	Pods     corelisters.PodNamespaceLister
	services corelisters.ServiceNamespaceLister
	slices   discoverylisters.EndpointSliceNamespaceLister
}

// WatchNamespace watches a namespace's pods, Services and EndpointSlices until ctx
// ends. It returns after the first list. It keeps the fields that probes read, and the
// variables of containers if env is true.
func WatchNamespace(ctx context.Context, client kubernetes.Interface, name string, env bool) (*Namespace, error) {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(name), informers.WithTransform(strip(env)))
	namespace := &Namespace{
		Pods:     factory.Core().V1().Pods().Lister().Pods(name),
		services: factory.Core().V1().Services().Lister().Services(name),
		slices:   factory.Discovery().V1().EndpointSlices().Lister().EndpointSlices(name),
	}
	// Listers without informers would stay empty.
	factory.Core().V1().Pods().Informer()
	factory.Core().V1().Services().Informer()
	factory.Discovery().V1().EndpointSlices().Informer()
	factory.StartWithContext(ctx)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return nil, fmt.Errorf("watch namespace %s for probes: %w", name, err)
	}
	return namespace, nil
}

// Belongs returns why an address belongs to no pod and no Service of the namespace;
// empty if it belongs to one. A pod in its node's network does not count: its address
// is the node's. A Service counts only if all its endpoints are pods of the namespace,
// because a user who may write EndpointSlices can direct it anywhere.
func (n *Namespace) Belongs(address netip.Addr) string {
	if n.pod(address) {
		return ""
	}
	services, err := n.services.List(labels.Everything())
	if err != nil {
		return err.Error()
	}
	for _, service := range services {
		if slices.ContainsFunc(service.Spec.ClusterIPs, func(ip string) bool { return sameAddress(ip, address) }) {
			return n.strays(service)
		}
	}
	return "it belongs to no pod and no Service of the disruption's namespace"
}

func (n *Namespace) pod(address netip.Addr) bool {
	pods, _ := n.Pods.List(labels.Everything()) // a cached list never fails
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool {
		return !ended(pod) && !pod.Spec.HostNetwork &&
			slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return sameAddress(ip.IP, address) })
	})
}

// strays returns why a Service does not count: an endpoint that is no pod of the
// namespace; empty if it has none.
func (n *Namespace) strays(service *corev1.Service) string {
	all, err := n.slices.List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service.Name}))
	if err != nil {
		return err.Error()
	}
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				address, err := netip.ParseAddr(text)
				if err != nil || !n.pod(address.Unmap()) {
					return fmt.Sprintf("Service %s leads to %s, which is no pod of the disruption's namespace", service.Name, text)
				}
			}
		}
	}
	return ""
}

// APIServerAddresses returns the addresses of the API server: those of Service
// kubernetes, of its endpoints, and of host, the worker's own URL of it, such as
// https://10.0.0.1:6443.
func APIServerAddresses(ctx context.Context, client kubernetes.Interface, host string) ([]netip.Addr, error) {
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the API server's Service: %w", err)
	}
	texts := slices.Clone(service.Spec.ClusterIPs)
	ofService := metav1.ListOptions{LabelSelector: kube.SlicesOf("kubernetes")}
	err = kube.Pages(ctx, client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List, ofService, func(page *discoveryv1.EndpointSliceList) {
		for _, slice := range page.Items {
			for _, endpoint := range slice.Endpoints {
				texts = append(texts, endpoint.Addresses...)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the API server's addresses: %w", err)
	}
	where, err := url.Parse(host)
	if err != nil {
		return nil, fmt.Errorf("the API server's address %q: %w", host, err)
	}
	own, err := net.DefaultResolver.LookupHost(ctx, where.Hostname())
	if err != nil {
		return nil, fmt.Errorf("resolve the API server's address: %w", err)
	}
	var addresses []netip.Addr
	for _, text := range append(texts, own...) {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address.Unmap().WithZone(""))
		}
	}
	return addresses, nil
}
