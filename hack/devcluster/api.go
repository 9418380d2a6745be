package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/pki"
)

// api asks the API server as its administrator.
type api struct {
	client http.Client
	url    string
}

func newAPI(c *cluster.Cluster) (*api, error) {
	admin, err := pki.Admin(c)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	cert, err := tls.X509KeyPair(admin.Cert, admin.Key)
	if err != nil {
		return nil, fmt.Errorf("read the administrator's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(admin.Authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}}
	return &api{client: http.Client{Transport: transport, Timeout: 5 * time.Second}, url: c.HostURL()}, nil
}

// do sends a request and decodes the answer into out unless that is nil.
func (a *api) do(ctx context.Context, method, path string, out any) error {
	request, err := http.NewRequestWithContext(ctx, method, a.url+path, nil)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err // names method and URL itself
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("ask for %s: %s", path, response.Status)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("ask for %s: %w", path, err)
	}
	return nil
}

func (a *api) ready(ctx context.Context) error { return a.do(ctx, http.MethodGet, "/readyz", nil) }

// nodeList is the part of a list of nodes that matters here.
type nodeList struct {
	Items []struct {
		Metadata struct{ Name string }
		Status   struct {
			Conditions []struct {
				Type, Status      string
				LastHeartbeatTime time.Time
			}
		}
	}
}

// readyNodes maps each node's name to whether it reported ready after began.
// Heartbeats count in full seconds.
func (l nodeList) readyNodes(began time.Time) map[string]bool {
	ready := map[string]bool{}
	for _, item := range l.Items {
		ready[item.Metadata.Name] = false
		for _, condition := range item.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" && condition.LastHeartbeatTime.After(began) {
				ready[item.Metadata.Name] = true
			}
		}
	}
	return ready
}

// nodesReady returns an error unless the first count nodes are ready.
func (a *api) nodesReady(ctx context.Context, count int, began time.Time) error {
	var list nodeList
	if err := a.do(ctx, http.MethodGet, "/api/v1/nodes", &list); err != nil {
		return err
	}
	ready := list.readyNodes(began)
	var waiting []string
	for n := 1; n <= count; n++ {
		if !ready[cluster.NodeName(n)] {
			waiting = append(waiting, cluster.NodeName(n))
		}
	}
	if len(waiting) > 0 {
		return fmt.Errorf("not ready: %s", strings.Join(waiting, ", "))
	}
	return nil
}

// removeNodesAbove deletes the objects of nodes that a larger cluster had.
func (a *api) removeNodesAbove(ctx context.Context, count int) error {
	var list nodeList
	if err := a.do(ctx, http.MethodGet, "/api/v1/nodes", &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		for n := count + 1; n <= cluster.MaxNodes; n++ {
			if item.Metadata.Name != cluster.NodeName(n) {
				continue
			}
			if err := a.do(ctx, http.MethodDelete, "/api/v1/nodes/"+item.Metadata.Name, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// dnsAnswers asks the pods of cluster DNS for a name that must exist. The API
// server's status of these pods may be older than a crash.
func (a *api) dnsAnswers(ctx context.Context) error {
	var pods struct {
		Items []struct{ Status struct{ PodIP string } }
	}
	if err := a.do(ctx, http.MethodGet, "/api/v1/namespaces/kube-system/pods?labelSelector=k8s-app%3Dkube-dns", &pods); err != nil {
		return err
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP == "" {
			continue
		}
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort(pod.Status.PodIP, "53"))
		}}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		_, err := resolver.LookupHost(ctx, "kubernetes.default.svc.cluster.local.")
		cancel()
		if err == nil {
			return nil
		}
	}
	return errors.New("no pod of cluster DNS answers")
}
