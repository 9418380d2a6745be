// Package bridgetest runs a bridge, or some of its controllers, for the tests of crdbridge
// and the packages below it: on a real API server, and a Temporal that records its calls.
package bridgetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/cached"
	"github.com/squall-chaos/squall/crdbridge/temporal"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// PollInterval is that of the bridges of tests, a fifth of the default. Two polls and the
// reconciles they cause fit into Soon; two at the default do not.
const PollInterval = temporal.PollInterval / 5

const mutationDetector = "KUBE_CACHE_MUTATION_DETECTOR"

// Main runs a package's tests with client-go's mutation detector. client-go reads the
// variable while it is initialised, so setting it here is too late for this process: it
// replaces itself by the same program with the variable (I8).
func Main(m *testing.M) {
	if os.Getenv(mutationDetector) == "" {
		environment := append(os.Environ(), mutationDetector+"=true")
		program, err := os.Executable()
		if err == nil {
			err = syscall.Exec(program, os.Args, environment)
		}
		fmt.Fprintln(os.Stderr, "start again with the mutation detector:", err)
		os.Exit(1)
	}
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(temporalserver.Tests{M: m}))
}

// Bridge is a running bridge, the API server it works on and a Temporal that records its
// calls.
type Bridge struct {
	T              *testing.T
	Kube           client.Client // not the bridge's: an administrator's, without a cache
	Namespace      string
	ChaosNamespace string
	// Watched are the namespaces the bridge handles; empty means all.
	Watched  []string
	Temporal *Recorder
	Traffic  *Traffic
	Manager  manager.Manager
	Options  func(*manager.Options)
	Stop     func() error
	build    Build
	// reconciles follows the reconciles of the controllers.
	reconciles reconcileLog
}

// Build makes the manager of a bridge. adjust is called with its options.
type Build func(b *Bridge, cluster *rest.Config, adjust func(*manager.Options)) (manager.Manager, error)

// Setup adds controllers to a manager.
type Setup func(b *Bridge, m manager.Manager, workflows *temporal.Workflows) error

// Controllers builds a manager that has only what setup adds to it.
func Controllers(setup Setup) Build {
	return func(b *Bridge, cluster *rest.Config, adjust func(*manager.Options)) (manager.Manager, error) {
		scheme, err := cached.Scheme()
		if err != nil {
			return nil, err
		}
		sameName := true // several managers run in one process
		options := manager.Options{
			Scheme:     scheme,
			Cache:      cached.Options(b.ChaosNamespace, b.Watched),
			Controller: controllerconfig.Controller{SkipNameValidation: &sameName},
			Metrics:    metricsserver.Options{BindAddress: "0"},
		}
		adjust(&options)
		cluster.QPS = -1
		m, err := manager.New(cluster, options)
		if err != nil {
			return nil, err
		}
		workflows, err := temporal.Setup(m, b.Temporal, prometheus.NewRegistry(), PollInterval)
		if err != nil {
			return nil, err
		}
		return m, errors.Join(cached.Index(m.GetFieldIndexer(), b.ChaosNamespace), setup(b, m, workflows))
	}
}

// New makes a namespace of its own for t and a bridge that does not run yet.
func New(t *testing.T, build Build) *Bridge {
	t.Helper()
	config := apiserver.Start(t)
	b := &Bridge{T: t, Temporal: NewRecorder(), Traffic: &Traffic{}, Options: func(*manager.Options) {}, build: build}
	b.Kube = administrator(t, config)
	b.Namespace = b.MakeNamespace("test-")
	b.ChaosNamespace = b.MakeNamespace("chaos-")
	t.Cleanup(b.sweep)
	return b
}

func administrator(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), coordinationv1.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	kube, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// Start runs the bridge until the test ends or Stop is called.
func (b *Bridge) Start() {
	b.T.Helper()
	cluster := apiserver.Start(b.T)
	cluster.Wrap(b.Traffic.wrap)
	var err error
	b.Manager, err = b.build(b, cluster, func(o *manager.Options) {
		o.Logger = zapr.NewLogger(zaptest.NewLogger(b.T, zaptest.Level(zapcore.DPanicLevel)))
		b.Options(o)
		o.Logger = b.reconciles.add(o.Logger)
	})
	if err != nil {
		b.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Manager.Start(ctx) }()
	var once sync.Once
	var result error
	b.Stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	b.T.Cleanup(func() {
		if err := b.Stop(); err != nil {
			b.T.Errorf("the controller stopped with %v", err)
		}
	})
}

// MakeNamespace returns the name of a new one.
func (b *Bridge) MakeNamespace(prefix string) string {
	b.T.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	b.Must(b.Kube.Create(b.T.Context(), n))
	return n.Name
}

// sweep removes the finalizers, so that later bridges find nothing of t's.
func (b *Bridge) sweep() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var list v1beta1.DisruptionList
	if err := b.Kube.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil {
		b.T.Errorf("sweep: %v", err)
	}
	for i := range list.Items {
		d := &list.Items[i]
		_ = b.Kube.Delete(ctx, d)
		_ = b.Kube.Patch(ctx, d, client.RawPatch(MergePatch, []byte(`{"metadata":{"finalizers":null}}`)))
	}
	now := client.GracePeriodSeconds(0)
	_ = b.Kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(b.Namespace), now)
	_ = b.Kube.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(b.ChaosNamespace), now)
}

// Must fails the test for an error.
func (b *Bridge) Must(err error) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
}
