package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/test/promise"
)

const (
	targetImage    = "squall.local/target:dev"
	probeImage     = "squall.local/probe:dev"
	probeNamespace = "squall-e2e" // the probes of the end-to-end tests do for both
)

// cluster is where the runs are.
type cluster struct {
	promise.Pods
	api     client.Client
	nodes   []string
	own     *corev1.Node // has a kernel of its own; nil if none has
	probes  *promise.Probes
	machine string // of a node, in words
}

// findCluster connects to the cluster of KUBECONFIG, and starts probes.
func findCluster(ctx context.Context) (*cluster, error) {
	ctrllog.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the cluster (set KUBECONFIG): %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(v1beta1.AddToScheme(scheme), appsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	c := &cluster{}
	c.Config = config
	if c.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	if c.api, err = client.New(config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := c.api.List(ctx, &nodes); err != nil {
		return nil, err
	}
	if len(nodes.Items) < 2 {
		return nil, fmt.Errorf("the cluster has %d nodes, pictures need 2: make dev-up NODES=2", len(nodes.Items))
	}
	for _, node := range nodes.Items {
		c.nodes = append(c.nodes, node.Name)
	}
	c.machine, c.own = machine(nodes.Items[0]), ownKernel(nodes.Items)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute) // of a virtual machine without KVM
	defer cancel()
	c.probes, err = promise.StartProbes(ctx, c.Kube, probeNamespace, probeImage, c.nodes)
	return c, err
}

// ownKernel is the first node but two, which have other parts, whose kernel no other one runs on.
func ownKernel(nodes []corev1.Node) *corev1.Node {
	kernels := kube.Kernels{}
	for i := range nodes {
		kernels.Add(&nodes[i])
	}
	shared := kernels.Shared()
	for i := 2; i < len(nodes); i++ {
		if shared[nodes[i].Name] == "" {
			return &nodes[i]
		}
	}
	return nil
}

// machine describes a node without its name.
func machine(node corev1.Node) string {
	version := strings.SplitN(node.Status.NodeInfo.KernelVersion, ".", 3)
	return fmt.Sprintf("Linux %s, %s processors", strings.Join(version[:min(2, len(version))], "."), node.Status.Capacity.Cpu())
}

// allow gives the worker the rights of a component. The function that it returns
// removes them again, unless the worker had them before.
func (c *cluster) allow(ctx context.Context, component string) (func(context.Context) error, error) {
	var made []client.Object
	deny := func(ctx context.Context) (err error) {
		for _, object := range made {
			err = errors.Join(err, client.IgnoreNotFound(c.api.Delete(ctx, object)))
		}
		return err
	}
	if component == "" {
		return deny, nil
	}
	text, err := os.ReadFile(filepath.Join("deploy/components", component, "rbac.yaml"))
	if err != nil {
		return deny, err
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return deny, err
		}
		switch err := c.api.Create(ctx, object); {
		case apierrors.IsAlreadyExists(err):
		case err != nil:
			return deny, err
		default:
			made = append(made, object)
		}
	}
	return deny, nil
}

// await asks until the answer is that all is well. On a busy machine that has
// taken three minutes.
func await(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return promise.Persist(ctx, func(context.Context) error { return ask() })
}
