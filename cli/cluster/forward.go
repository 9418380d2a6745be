package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/squall-chaos/squall/kube"
)

// WorkerSettings are the settings that Squall's worker takes from its ConfigMap,
// by the names of its environment. It is an error if the namespace has no worker.
func (c *Client) WorkerSettings(ctx context.Context, namespace string) (map[string]string, error) {
	worker, err := workerOf(ctx, c, namespace)
	if err != nil {
		return nil, err
	}
	set := map[string]string{}
	for _, container := range worker.Spec.Template.Spec.Containers {
		for _, from := range container.EnvFrom {
			if from.ConfigMapRef == nil {
				continue
			}
			values, err := c.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, from.ConfigMapRef.Name, metav1.GetOptions{})
			if err != nil {
				return nil, c.advise(ctx, err, "", "")
			}
			for name, value := range values.Data {
				set[name] = value
			}
		}
		for _, env := range container.Env {
			if env.ValueFrom == nil {
				set[env.Name] = env.Value
			}
		}
	}
	return set, nil
}

// WorkerImage is the image of Squall's worker. It is an error if the namespace has no worker.
func (c *Client) WorkerImage(ctx context.Context, namespace string) (string, error) {
	worker, err := workerOf(ctx, c, namespace)
	if err != nil {
		return "", err
	}
	return worker.Spec.Template.Spec.Containers[0].Image, nil
}

func workerOf(ctx context.Context, c *Client, namespace string) (*appsv1.Deployment, error) {
	worker, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, "squall-worker", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("there is no deployment squall-worker in namespace %s (--system-namespace)", namespace)
	}
	return worker, c.advise(ctx, err, "", "")
}

// ServiceOf reads an address such as temporal-frontend.temporal:7233 as that of a Service;
// false for other addresses.
func ServiceOf(address string) (namespace, service string, port int32, ok bool) {
	host, text, err := net.SplitHostPort(address)
	number, notNumber := strconv.ParseInt(text, 10, 32)
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if err != nil || notNumber != nil || len(parts) < 2 || len(parts) > 2 && parts[2] != "svc" || net.ParseIP(host) != nil {
		return "", "", 0, false
	}
	return parts[1], parts[0], int32(number), true
}

// errNoService means that there is no such Service in the cluster.
var errNoService = errors.New("no such service")

// Inside is true in a pod of the cluster, which reaches its Services without forwarding.
func (c *Client) Inside() bool {
	own, err := rest.InClusterConfig()
	return err == nil && own.Host == c.Config.Host
}

// Forward makes a port of a Service reachable on a port of this machine's
// loopback until ctx ends, through the API server, as kubectl port-forward does.
// The address is empty if there is no such Service.
func (c *Client) Forward(ctx context.Context, namespace, service string, port int32) (address string, err error) {
	pod, target, err := podBehind(ctx, c, namespace, service, port)
	if errors.Is(err, errNoService) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("forward to service %s in namespace %s: %w", service, namespace, err)
	}
	url := c.Kube.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").Name(pod).SubResource("portforward").URL()
	roundTripper, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return "", err
	}
	webSocket, err := portforward.NewSPDYOverWebsocketDialer(url, c.Config)
	if err != nil {
		return "", err
	}
	dialer := portforward.NewFallbackDialer(webSocket, spdy.NewDialer(upgrader, &http.Client{Transport: roundTripper}, http.MethodPost, url),
		func(err error) bool { return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) })
	ready, end := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", target)}, ctx.Done(), ready, io.Discard, io.Discard)
	if err != nil {
		return "", err
	}
	go func() { end <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-end:
		return "", fmt.Errorf("forward to port %d of pod %s/%s: %w", target, namespace, pod, c.advise(ctx, err, "", ""))
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(ports[0].Local))), nil
}

// podBehind returns a ready pod of a port of a Service, and the pod's port.
func podBehind(ctx context.Context, c *Client, namespace, service string, port int32) (pod string, target int32, err error) {
	found, err := c.Kube.CoreV1().Services(namespace).Get(ctx, service, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", 0, errNoService
	}
	if err != nil {
		return "", 0, c.advise(ctx, err, "", "")
	}
	var slices []discoveryv1.EndpointSlice
	err = kube.Pages(ctx, c.Kube.DiscoveryV1().EndpointSlices(namespace).List, metav1.ListOptions{LabelSelector: kube.SlicesOf(service)},
		func(page *discoveryv1.EndpointSliceList) { slices = append(slices, page.Items...) })
	if err != nil {
		return "", 0, c.advise(ctx, err, "", "")
	}
	return readyPod(found.Spec.Ports, port, slices)
}

// readyPod chooses a pod of a Service's endpoints.
func readyPod(ports []corev1.ServicePort, port int32, slices []discoveryv1.EndpointSlice) (pod string, target int32, err error) {
	name, known := "", false
	for _, p := range ports {
		if p.Port == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			name, known = p.Name, true
		}
	}
	if !known {
		return "", 0, fmt.Errorf("it has no port %d", port)
	}
	for _, slice := range slices {
		for _, p := range slice.Ports {
			if p.Port == nil || p.Name == nil || *p.Name != name {
				continue
			}
			for _, e := range slice.Endpoints {
				if e.TargetRef != nil && e.TargetRef.Kind == "Pod" && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
					return e.TargetRef.Name, *p.Port, nil
				}
			}
		}
	}
	return "", 0, errors.New("none of its pods is ready")
}
