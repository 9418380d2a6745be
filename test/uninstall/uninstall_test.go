//go:build e2e

// Package uninstall takes Squall out of the cluster while ten disruptions run, and
// looks for what it has left. The stages after it install Squall again.
package uninstall

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/squall-chaos/squall/test/promise"
)

const (
	root      = "../.."
	namespace = "uninstall"

	// target is a pod that any of the disruptions can have.
	target = `{apiVersion: v1, kind: Pod, metadata: {name: target-%d, namespace: uninstall, labels: {number: "%[1]d"}}, spec: {terminationGracePeriodSeconds: 1,
  containers: [{name: target, image: "squall.local/target:dev", imagePullPolicy: Never, volumeMounts: [{name: data, mountPath: /data}],
    resources: {requests: {cpu: 1m}, limits: {cpu: 300m, memory: 200Mi}}}],
  volumes: [{name: data, emptyDir: {}}]}}
---
`
	disruption = `{apiVersion: chaos.squall.dev/v1beta1, kind: Disruption, metadata: {name: running-%d, namespace: uninstall}, spec: {count: 1, duration: 30m, %s}}
---
`
)

// faults are of all kinds that last and need nothing of their target.
var faults = []string{
	"network: {drop: 40}",
	"network: {delay: 100}",
	"network: {bandwidthLimit: 1048576}",
	"network: {duplicate: 30, corrupt: 30}",
	"cpuPressure: {count: 10%}",
	"memoryPressure: {targetPercent: 50%}",
	"diskPressure: {path: /data, throttling: {writeBytesPerSec: 1048576}}",
	"diskFailure: {paths: [/data], openat: {exitCode: EPERM}}",
	"dns: {records: [{hostname: first.example.com, record: {type: A, value: 192.0.2.77}}]}",
}

// rule S14
func TestUninstallLeavesNothing(t *testing.T) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	injectors := promise.Injectors{Kube: kube, Namespace: namespace}
	if injectors.Image, err = promise.InjectorImage(t.Context(), kube); err != nil {
		t.Fatal(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := operator{t, t.TempDir()}
	o.kubectl("create", "namespace", namespace)
	t.Cleanup(func() {
		if t.Failed() {
			o.leave("--namespace="+namespace, "get", "events")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		if err := kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	var targets, disruptions strings.Builder
	for i, fault := range faults {
		fmt.Fprintf(&targets, target, i)
		fmt.Fprintf(&disruptions, disruption, i, fmt.Sprintf(`selector: {number: "%d"}, %s`, i, fault))
	}
	fmt.Fprintf(&disruptions, disruption, len(faults), fmt.Sprintf("level: node, selector: {kubernetes.io/hostname: %s}, network: {drop: 100, hosts: [{host: 192.0.2.1}]}", nodes.Items[0].Name))
	o.apply("targets.yaml", targets.String())
	o.kubectl("--namespace="+namespace, "wait", "pod", "--all", "--for=condition=Ready", "--timeout=3m")
	o.apply("disruptions.yaml", disruptions.String())
	o.kubectl("--namespace="+namespace, "wait", "disruptions", "--all", "--for=jsonpath={.status.injectionStatus}=Injected", "--timeout=3m")
	for _, node := range nodes.Items[:1] {
		if audit, err := injectors.Audit(t.Context(), node.Name); err != nil || len(audit.Marks) == 0 {
			t.Fatalf("while disruptions run an audit of %s finds %+v, %v: it would find nothing afterwards either", node.Name, audit, err)
		}
	}

	others := []string{"squall-e2e", "squall-demo"} // of the stages before
	for _, node := range nodes.Items {
		others = append(others, node.Name)
	}
	if found := named(t, config, "squall", others); !slices.Contains(found, "customresourcedefinitions/disruptions.chaos.squall.dev") {
		t.Fatalf("before it is uninstalled, of Squall there is %v: the look would find nothing afterwards either", found)
	}

	began := time.Now()
	o.run(filepath.Join(root, "bin", "squall"), "uninstall", "--yes", "--timeout=5m")
	t.Logf("all is clean %s after squall uninstall", time.Since(began).Round(100*time.Millisecond))
	o.kubectl("delete", "--ignore-not-found", "--timeout=3m", "-k", filepath.Join(root, "bin", "overlay"))

	for _, node := range nodes.Items {
		if audit, err := injectors.Audit(t.Context(), node.Name); err != nil || audit.Error != "" || len(audit.Marks)+audit.More > 0 {
			t.Errorf("an audit of %s finds %+v, %v, want no mark and no journal", node.Name, audit, err)
		}
	}
	if found := named(t, config, "squall", others); len(found) > 0 {
		t.Errorf("of Squall there is left: %s", strings.Join(found, " "))
	}
}

// operator types commands.
type operator struct {
	*testing.T
	directory string
}

func (o operator) kubectl(args ...string) string {
	o.Helper()
	return o.run(filepath.Join(root, ".dev", "bin", "kubectl"), args...)
}

func (o operator) run(program string, args ...string) string {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), 6*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		o.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(args, " "), err, out)
	}
	return string(out)
}

// leave runs at the end, when the test's own context is over.
func (o operator) leave(args ...string) {
	out, err := exec.Command(filepath.Join(root, ".dev", "bin", "kubectl"), args...).CombinedOutput()
	o.Logf("%s: %v\n%s", strings.Join(args, " "), err, out)
}

func (o operator) apply(name, manifest string) {
	o.Helper()
	file := filepath.Join(o.directory, name)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		o.Fatal(err)
	}
	o.kubectl("apply", "-f", file)
}

// named are the objects of all types, in all namespaces, whose names have the word,
// but for those of some names.
func named(t *testing.T, config *rest.Config, word string, but []string) (found []string) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	types, err := discovery.NewDiscoveryClientForConfigOrDie(config).ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, types) {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range group.APIResources {
			if one.Kind == "Event" {
				continue // events report what was, for an hour
			}
			objects, err := client.Resource(version.WithResource(one.Name)).List(t.Context(), metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
				continue // the type has gone meanwhile, with its objects
			}
			if err != nil {
				t.Fatalf("list %s: %v", one.Name, err)
			}
			for _, object := range objects.Items {
				if strings.Contains(object.Name, word) && !slices.Contains(but, object.Name) {
					found = append(found, one.Name+"/"+object.Name)
				}
			}
		}
	}
	return found
}
