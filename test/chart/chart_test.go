// Package chart tests that the Helm chart and the kustomization are the same Squall.
package chart

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamldecoder "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy"

// components are those of the chart, and the folders that kustomize has them in.
var components = map[string]string{
	"onInit": "on-init", "podReplacement": "pod-replacement", "podOperations": "pod-operations", "podOpsDriver": "pod-ops-driver", "gracefulDelete": "graceful-delete", "readinessGate": "readiness-gate", "requesters": "requesters", "probeExec": "probe-exec", "webhookClients": "webhook-clients", "prometheusOperator": "prometheus-operator",
}

// otherValues are folders of components that the chart has by a value of another name.
var otherValues = map[string]map[string]any{
	"aggregate-to-edit": {"rbac": map[string]any{"aggregateToEdit": true}},
	"network-policy":    {"networkPolicy": map[string]any{"enabled": true}},
	"grafana-dashboard": {"metrics": map[string]any{"dashboard": map[string]any{"enabled": true}}},
}

// required are the components without which the chart refuses one.
var required = map[string][]string{"gracefulDelete": {"podOpsDriver"}, "readinessGate": {"podOpsDriver"}}

// objects are manifests by kind, namespace and name.
type objects map[string]map[string]any

// Whichever way Squall is installed, it is the same objects, with each of its
// components, except for what installs them: see comparable.
func TestChartIsTheKustomization(t *testing.T) {
	same := func(t *testing.T, values map[string]any, folders ...string) {
		t.Helper()
		got, err := helm(load(t), values)
		if err != nil {
			t.Fatal(err)
		}
		want := kustomize(t, folders...)
		if len(want) < 20 {
			t.Fatalf("the kustomization has %d objects: this would prove little", len(want))
		}
		if diff := cmp.Diff(comparable(want), comparable(got)); diff != "" {
			t.Errorf("objects (-kustomize +helm):\n%s", diff)
		}
	}
	t.Run("with the bundled Temporal", func(t *testing.T) { same(t, nil, "temporal") })
	t.Run("with a Temporal elsewhere", func(t *testing.T) {
		same(t, map[string]any{"temporal": map[string]any{"address": "temporal-frontend.temporal:7233"}}) // as in settings.env
	})
	for name, folder := range components {
		t.Run("with "+folder, func(t *testing.T) {
			values, folders := map[string]any{name: true}, []string{"temporal"}
			for _, other := range required[name] {
				values[other], folders = true, append(folders, components[other])
			}
			folders = append(folders, folder)
			slices.Sort(folders) // the chart's order, which the order of variables follows
			same(t, map[string]any{"components": values}, folders...)
		})
	}
	t.Run("with on-init-cert-manager", func(t *testing.T) {
		same(t, map[string]any{"components": map[string]any{"onInit": true, "onInitCertManager": true}}, "temporal", "on-init", "on-init-cert-manager")
	})
	for folder, values := range otherValues {
		t.Run("with "+folder, func(t *testing.T) { same(t, values, "temporal", folder) })
	}
	for name, folder := range map[string]string{"namespaceOptIn": "namespace-opt-in", "safeMode": "safe-mode"} {
		for _, value := range []string{"off", "enforce"} {
			of := folder + "-" + value
			t.Run("with "+of, func(t *testing.T) { same(t, map[string]any{name: value}, "temporal", of) })
		}
	}
}

// TestChartHasEveryComponent: users of Helm can only have the components in the
// chart.
func TestChartHasEveryComponent(t *testing.T) {
	folders, err := os.ReadDir(deploy + "/components")
	if err != nil {
		t.Fatal(err)
	}
	known := slices.Concat(slices.Collect(maps.Values(components)), slices.Collect(maps.Keys(otherValues)),
		[]string{"temporal", "namespace-opt-in-off", "namespace-opt-in-enforce", "safe-mode-off", "safe-mode-enforce", "on-init-cert-manager"})
	for _, folder := range folders {
		if !slices.Contains(known, folder.Name()) {
			t.Errorf("the chart has no value for deploy/components/%s", folder.Name())
		}
	}
}

// comparable leaves out what differs on purpose: the namespace that helm installs
// into and does not own, the hash by which kustomize restarts the programs when settings
// change, the annotations by which the chart restarts them and keeps the types, and the
// labels by which Helm's users find the objects of a release.
func comparable(from objects) objects {
	left := objects{}
	for key, object := range from {
		text, _ := json.Marshal(object) // it was read from JSON
		text = regexp.MustCompile(`squall-settings-[a-z0-9]{10}`).ReplaceAll(text, []byte("squall-settings"))
		var plain map[string]any
		_ = json.Unmarshal(text, &plain)
		if hook, _, _ := unstructured.NestedString(plain, "metadata", "annotations", "helm.sh/hook"); hook == "test" {
			continue // what helm test makes and takes away
		}
		without(plain, "metadata", "annotations", "helm.sh/resource-policy")
		for _, label := range chartLabels {
			without(plain, "metadata", "labels", label)
		}
		without(plain, "spec", "template", "metadata", "annotations", "checksum/settings")
		left[regexp.MustCompile(`squall-settings-[a-z0-9]{10}`).ReplaceAllString(key, "squall-settings")] = plain
	}
	delete(left, "Namespace//squall-system")
	return left
}

// chartLabels are on every object of the chart.
var chartLabels = []string{"helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "app.kubernetes.io/version"}

// without takes a field away, and what is empty then.
func without(object map[string]any, path ...string) {
	if len(path) == 1 {
		delete(object, path[0])
		return
	}
	inner, found := object[path[0]].(map[string]any)
	if !found {
		return
	}
	without(inner, path[1:]...)
	if len(inner) == 0 {
		delete(object, path[0])
	}
}

const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestValues(t *testing.T) {
	deployment := func(t *testing.T, all objects, name string) map[string]any {
		t.Helper()
		spec, found := all["Deployment/squall-system/"+name]["spec"].(map[string]any)
		if !found {
			t.Fatalf("there is no Deployment %s", name)
		}
		return spec
	}
	pod := func(t *testing.T, all objects, name string) string {
		t.Helper()
		text, err := yaml.Marshal(deployment(t, all, name)["template"])
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all, err := helm(load(t), map[string]any{
		"temporal": map[string]any{"address": "temporal.example:7233", "tls": map[string]any{"enabled": true, "certKey": "tls.crt"}},
		"images": map[string]any{"registry": "registry.example/chaos", "tag": "v7", "pullPolicy": "Always",
			"injector": map[string]any{"registry": "mirror.example", "repository": "faults", "digest": digest}},
		"imagePullSecrets": []any{"pull", map[string]any{"name": "pull-too"}},
		"settings":         map[string]any{"SQUALL_SWEEP_INTERVAL": "2h", "SQUALL_PROBE_HOSTS": "shop.example", "SQUALL_PARALLEL": 3, "SQUALL_CONTROL_PLANE_NODES": true},
		"worker":           map[string]any{"replicas": 5, "nodeSelector": map[string]any{"pool": "tools"}, "tolerations": []any{map[string]any{"key": "tools"}}, "priorityClassName": "high"},
		"crds":             map[string]any{"install": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := deployment(t, all, "squall-worker")["replicas"]; got != float64(5) {
		t.Errorf("the worker has %v replicas, want 5", got)
	}
	for _, want := range []string{"image: registry.example/chaos/squall:v7", "imagePullPolicy: Always", "- name: pull\n", "- name: pull-too", "pool: tools", "key: tools", "priorityClassName: high"} {
		if text := pod(t, all, "squall-worker"); !strings.Contains(text, want) {
			t.Errorf("the worker's pod has no %q:\n%s", want, text)
		}
	}
	if text := pod(t, all, "squall-crdbridge"); strings.Contains(text, "pool: tools") {
		t.Errorf("the bridge's pod has the worker's nodeSelector:\n%s", text)
	}
	settings := all["ConfigMap/squall-system/squall-settings"]["data"].(map[string]any)
	for name, want := range map[string]string{
		"SQUALL_TEMPORAL_ADDRESS": "temporal.example:7233", "SQUALL_TEMPORAL_TLS": "true", "SQUALL_TEMPORAL_TLS_CERT": "/etc/squall/temporal/tls.crt",
		"SQUALL_INJECTOR_IMAGE": "mirror.example/faults@" + digest, "SQUALL_PARALLEL": "3", "SQUALL_CONTROL_PLANE_NODES": "true",
		"SQUALL_IMAGE_PULL_POLICY": "Always", "SQUALL_CHAOS_POD_IMAGE_PULL_SECRETS": "pull,pull-too", "SQUALL_SWEEP_INTERVAL": "2h", "SQUALL_PROBE_HOSTS": "shop.example", "SQUALL_LOG_LEVEL": "info",
	} {
		if settings[name] != want {
			t.Errorf("%s = %v, want %s", name, settings[name], want)
		}
	}
	for key := range all {
		if strings.HasPrefix(key, "CustomResourceDefinition/") {
			t.Errorf("%s is installed, and crds.install is false", key)
		}
	}
}

// The chart's own Temporal follows the values: image, namespace, and a store that
// outlives its pod.
func TestOwnTemporal(t *testing.T) {
	all, err := helm(load(t), map[string]any{
		"temporal":         map[string]any{"bundled": map[string]any{"enabled": true, "storage": "2Gi", "nodeSelector": map[string]any{"pool": "tools"}}, "namespace": "chaos"},
		"images":           map[string]any{"registry": "registry.example", "tag": "v7", "pullPolicy": "Always"},
		"imagePullSecrets": []any{"pull"},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(all["StatefulSet/squall-system/squall-temporal"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: registry.example/temporal:v7", "imagePullPolicy: Always", "- name: pull", "storage: 2Gi", "- --namespace=chaos", "pool: tools"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("Temporal has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "emptyDir") {
		t.Error("the store goes with the pod, though it has a volume")
	}
	if got := all["ConfigMap/squall-system/squall-settings"]["data"].(map[string]any)["SQUALL_TEMPORAL_NAMESPACE"]; got != "chaos" {
		t.Errorf("the programs look for the namespace %v", got)
	}
}

// helm test tries the chart's own Temporal from a pod that its NetworkPolicy keeps out.
func TestIsolationIsTested(t *testing.T) {
	const pod = "Pod/squall-system/squall-test-isolation"
	all, err := helm(load(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all[pod] == nil {
		t.Fatalf("the chart has no %s", pod)
	}
	labels, _, err := unstructured.NestedStringMap(all[pod], "metadata", "labels")
	if err != nil {
		t.Fatal(err)
	}
	policy, err := yaml.Marshal(all["NetworkPolicy/squall-system/squall-temporal"])
	if err != nil {
		t.Fatal(err)
	}
	name := labels["app.kubernetes.io/name"]
	if !strings.Contains(string(policy), "- squall-test\n") || name == "" || strings.Contains(string(policy), "- "+name+"\n") {
		t.Errorf("the pod is called %q, want a name that the NetworkPolicy does not let in:\n%s", name, policy)
	}
	for _, values := range []map[string]any{{"address": "temporal.example:7233"}, {"bundled": map[string]any{"enabled": true, "testIsolation": false}}} {
		all, err := helm(load(t), map[string]any{"temporal": values})
		if err != nil {
			t.Fatal(err)
		}
		if all[pod] != nil {
			t.Errorf("with %v there is %s, want none", values, pod)
		}
	}
}

// After an installation Helm prints what the chart's own Temporal costs.
func TestNotesWarnOfTheOwnTemporal(t *testing.T) {
	const open, lost = "no authentication", "Its store is an emptyDir"
	for _, test := range []struct {
		values     map[string]any
		open, lost bool
	}{
		{nil, true, true},
		{map[string]any{"bundled": map[string]any{"enabled": true, "storage": "2Gi"}}, true, false},
		{map[string]any{"address": "temporal.example:7233"}, false, false},
	} {
		values := map[string]any{}
		if test.values != nil {
			values["temporal"] = test.values
		}
		files, err := renderedFiles(load(t), values, "squall-system")
		if err != nil {
			t.Fatal(err)
		}
		notes := files["squall/templates/NOTES.txt"]
		if strings.Contains(notes, open) != test.open || strings.Contains(notes, lost) != test.lost {
			t.Errorf("notes with %v:\n%s\nwant %q in them: %t, and %q: %t", test.values, notes, open, test.open, lost, test.lost)
		}
	}
}

// A change of settings restarts the programs, and nothing else does.
func TestSettingsRestart(t *testing.T) {
	template := func(values map[string]any) string {
		all, err := helm(load(t), values)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(all["Deployment/squall-system/squall-worker"]["spec"].(map[string]any)["template"])
	}
	before := template(nil)
	if template(map[string]any{"settings": map[string]any{"SQUALL_LOG_LEVEL": "debug"}}) == before {
		t.Error("the worker goes on with the settings of before")
	}
	if template(map[string]any{"crdbridge": map[string]any{"replicas": 3}}) != before {
		t.Error("the worker restarts because of the bridge's replicas")
	}
}

// TestTypesAreKept: the types outlive the chart. Removing them would remove all
// Disruptions, and then no workflow would clean up.
func TestTypesAreKept(t *testing.T) {
	all, err := helm(load(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for key, object := range all {
		annotations, _ := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if policy := annotations["helm.sh/resource-policy"]; strings.HasPrefix(key, "CustomResourceDefinition/") != (policy == "keep") {
			t.Errorf("%s has the policy %v", key, policy)
		} else if policy == "keep" {
			kept++
		}
	}
	if kept == 0 {
		t.Error("the chart has no types")
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		values map[string]any
		want   string
	}{
		"an unknown name":              {map[string]any{"wroker": map[string]any{}}, "wroker"},
		"an unknown name further in":   {map[string]any{"worker": map[string]any{"replica": 3}}, "replica"},
		"a volume of no size":          {map[string]any{"temporal": map[string]any{"bundled": map[string]any{"storage": "much"}}}, "/temporal/bundled/storage"},
		"replicas that are no number":  {map[string]any{"worker": map[string]any{"replicas": "two"}}, "/worker/replicas"},
		"an address without a port":    {map[string]any{"temporal": map[string]any{"address": "temporal.example"}}, "/temporal/address"},
		"an opt-in that is none":       {map[string]any{"namespaceOptIn": "on"}, "/namespaceOptIn"},
		"a safe mode that is none":     {map[string]any{"safeMode": "on"}, "/safeMode"},
		"an unknown pull policy":       {map[string]any{"images": map[string]any{"pullPolicy": "Sometimes"}}, "/images/pullPolicy"},
		"a setting without the prefix": {map[string]any{"settings": map[string]any{"LOG_LEVEL": "debug"}}, "LOG_LEVEL"},
		"an unknown setting":           {map[string]any{"settings": map[string]any{"SQUALL_PROMETEUS_ADDRESS": "http://prometheus"}}, "SQUALL_PROMETEUS_ADDRESS"},
		"a setting that is no number":  {map[string]any{"settings": map[string]any{"SQUALL_PARALLEL": "many"}}, "/settings/SQUALL_PARALLEL"},
		"a setting that is no time":    {map[string]any{"settings": map[string]any{"SQUALL_SWEEP_INTERVAL": "1 hour"}}, "/settings/SQUALL_SWEEP_INTERVAL"},
		"an API key in a ConfigMap":    {map[string]any{"settings": map[string]any{"SQUALL_TEMPORAL_API_KEY": "secret"}}, "SQUALL_TEMPORAL_API_KEY"},
		"a digest that is none":        {map[string]any{"images": map[string]any{"squall": map[string]any{"digest": "sha256:0"}}}, "/images/squall/digest"},
		"no Temporal":                  {map[string]any{"temporal": map[string]any{}}, "set temporal.address=HOST:PORT for yours, or temporal.bundled.enabled=true"},
		"two Temporals":                {map[string]any{"temporal": map[string]any{"address": "temporal.example:7233", "bundled": map[string]any{"enabled": true}}}, "not both"},
		"a component without its base": {map[string]any{"components": map[string]any{"readinessGate": true}}, "components.readinessGate needs components.podOpsDriver=true"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := helm(load(t), test.values); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("helm says %v, want %q in it", err, test.want)
			}
		})
	}
	t.Run("another namespace", func(t *testing.T) {
		if _, err := rendered(load(t), nil, "default"); err == nil || !strings.Contains(err.Error(), "install into the namespace squall-system, not default") {
			t.Errorf("helm says %v", err)
		}
	})
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	log.SetOutput(io.Discard) // Helm logs each link that it follows
	loaded, err := loader.Load(deploy + "/chart")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

func helm(c *chart.Chart, values map[string]any) (objects, error) {
	return rendered(c, values, "squall-system")
}

// rendered is what `helm install` into a namespace would create.
func rendered(c *chart.Chart, values map[string]any, namespace string) (objects, error) {
	files, err := renderedFiles(c, values, namespace)
	if err != nil {
		return nil, err
	}
	found := objects{}
	for name, text := range files {
		if filepath.Ext(name) == ".yaml" {
			if err := found.add([]byte(text)); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return found, nil
}

// renderedFiles are the texts of all templates, by the name of the template.
// Values without Temporal select the bundled one.
func renderedFiles(c *chart.Chart, values map[string]any, namespace string) (map[string]string, error) {
	values = maps.Clone(values)
	if values["temporal"] == nil {
		values = merged(values, map[string]any{"temporal": map[string]any{"bundled": map[string]any{"enabled": true}}})
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "squall", Namespace: namespace, IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, all)
}

// merged has the top-level values of both.
func merged(values, more map[string]any) map[string]any {
	all := maps.Clone(more)
	maps.Copy(all, values)
	return all
}

// kustomize is what `kubectl apply -k` would, with components.
func kustomize(t *testing.T, folders ...string) objects {
	t.Helper()
	above := t.TempDir()
	overlay := "resources: [../base]\ncomponents:\n"
	for _, folder := range folders {
		overlay += "- ../base/components/" + folder + "\n"
	}
	base := filepath.Join(above, "base")
	if err := copyWithoutLinks(base); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(above, "overlay"), 0o755),
		os.WriteFile(filepath.Join(above, "overlay", "kustomization.yaml"), []byte(overlay), 0o600)); err != nil {
		t.Fatal(err)
	}
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(above, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	found := objects{}
	if err = errors.Join(err, found.add(text)); err != nil {
		t.Fatal(err)
	}
	return found
}

// copyWithoutLinks copies what kustomize reads; the chart is links to it.
func copyWithoutLinks(to string) error {
	return filepath.WalkDir(deploy, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && entry.Name() == "chart" {
			return fs.SkipDir
		}
		name, err := filepath.Rel(deploy, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, name), text, 0o600)
	})
}

// add reads manifests. No two may be of one name.
func (o objects) add(text []byte) error {
	decoder := yamldecoder.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(object) == 0 {
			continue
		}
		metadata, _ := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		key := fmt.Sprintf("%v/%s/%v", object["kind"], namespace, metadata["name"])
		if o[key] != nil {
			return fmt.Errorf("%s is there twice", key)
		}
		o[key] = object
	}
}
