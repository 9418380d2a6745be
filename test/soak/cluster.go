package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
)

const (
	systemNamespace = "squall-system"
	chaosNamespace  = "squall-chaos"
)

// cluster is the development cluster, from the API and from the machine it
// runs on.
type cluster struct {
	options
	kube     kubernetes.Interface
	client   client.Client
	temporal temporalclient.Client
	image    string // that Squall runs from
	nodes    []node
}

// node is a machine of the cluster.
type node struct {
	name, address string
	number        int
	squall        string // its /var/lib/squall, as the host sees it
}

func findCluster(ctx context.Context, o options) (*cluster, error) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(o.dev, "kubeconfig"))
	if err != nil {
		return nil, fmt.Errorf("find the development cluster: %w; make dev-up starts it", err)
	}
	config.QPS = -1
	config.Timeout = 10 * time.Second
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c := &cluster{options: o}
	if c.client, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("find the development cluster: %w", err)
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	address := os.Getenv("TEMPORAL_ADDRESS")
	if address == "" {
		address = temporalclient.DefaultHostPort
	}
	c.temporal, err = temporalclient.NewLazyClient(temporalclient.Options{HostPort: address, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return nil, err
	}
	if c.image, err = promise.InjectorImage(ctx, c.kube); err != nil {
		return nil, err
	}
	return c, c.findNodes(ctx)
}

func (c *cluster) findNodes(ctx context.Context) error {
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes: %w", err)
	}
	for _, found := range list.Items {
		n := node{name: found.Name}
		if n.number, err = strconv.Atoi(strings.TrimPrefix(n.name, "squall-node")); err != nil {
			return fmt.Errorf("node %s is none of a development cluster: only such a one may be killed", n.name)
		}
		for _, a := range found.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				n.address = a.Address
			}
		}
		n.squall = filepath.Join(c.dev, "machines", fmt.Sprintf("node%d", n.number), "squall")
		c.nodes = append(c.nodes, n)
	}
	if len(c.nodes) < 2 {
		return fmt.Errorf("the cluster has %d nodes, the soak needs 2: make dev-down dev-up NODES=2", len(c.nodes))
	}
	return nil
}

// run starts a program and returns what it printed.
func (c *cluster) run(ctx context.Context, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	var out, problem strings.Builder
	command.Stdout, command.Stderr = &out, &problem
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return out.String(), nil
}

// kill ends a program of a machine, or the one in a container there.
func (c *cluster) kill(ctx context.Context, program string, args ...string) error {
	_, err := c.run(ctx, c.devcluster, append([]string{"kill", "--dir", c.dev, program}, args...)...)
	return err
}

// hurt does to a node what its hardware or its network might, or undoes it.
func (c *cluster) hurt(ctx context.Context, action string, n node) error {
	_, err := c.askDevcluster(ctx, action, n)
	return err
}

// first is the first process of a node, another after a crash.
func (c *cluster) first(ctx context.Context, n node) (string, error) {
	pid, err := c.askDevcluster(ctx, "pid", n)
	return strings.TrimSpace(pid), err
}

func (c *cluster) askDevcluster(ctx context.Context, action string, n node) (string, error) {
	return c.run(ctx, c.devcluster, "node", "--dir", c.dev, action, strconv.Itoa(n.number))
}

// kubeletAnswers reports whether a program listens on the address of the node's
// kubelet.
func (n node) kubeletAnswers(ctx context.Context) bool {
	return dials("tcp", net.JoinHostPort(n.address, "10250"))(ctx)
}

func (c *cluster) node(name string) node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return node{}
}
