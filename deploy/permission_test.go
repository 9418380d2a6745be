package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

// The right to create Disruptions in a namespace does not include nodes, the removal of
// safety nets, or disruptions of days. Each needs a right that no role has by accident.
func TestWhatGoesBeyondANamespaceNeedsARightOfItsOwn(t *testing.T) {
	kube := installed(t)
	in := func(user, role, namespace string) {
		subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		meta := metav1.ObjectMeta{Name: user + "-" + role, Namespace: namespace}
		var err error
		if namespace == "" {
			_, err = kube.RbacV1().ClusterRoleBindings().Create(t.Context(),
				&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		} else {
			_, err = kube.RbacV1().RoleBindings(namespace).Create(t.Context(),
				&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: ref}, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	everywhere := ""
	in("tenant", "squall-disruptions", "default")
	// The owner of a namespace has all rights in it.
	in("owner", "cluster-admin", "default")
	in("operator", "squall-disruptions", "default")
	in("operator", "squall-node-disruptions", everywhere)
	in("operator", "squall-unsafe-disruptions", everywhere)
	in("operator", "squall-long-disruptions", "default")
	in("operator", "system:aggregate-to-edit", "default")
	in("admin", "cluster-admin", everywhere)

	create := func(user string, spec map[string]any) error {
		d := aDisruption("asked")
		for field, value := range spec {
			d.Object["spec"].(map[string]any)[field] = value
		}
		_, err := disruptionsAs(t, user).Create(t.Context(), d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	root := map[string]any{"paths": []any{"/"}, "probability": "10%"}
	for _, c := range []struct {
		name    string
		spec    map[string]any
		missing string // the required right, empty for none
		byOwner bool   // all rights in a namespace are enough
	}{
		{"a pod", nil, "", true},
		{"a pod, said in so many words", map[string]any{"level": "pod", "network": map[string]any{"drop": int64(10), "disableDefaultAllowedHosts": false},
			"unsafeMode": map[string]any{"disableAll": false, "disableNeitherHostNorPort": false}, "duration": "24h"}, "", true},
		{"nothing said by null", map[string]any{"unsafeMode": nil, "triggers": nil}, "", true},
		{"a node", map[string]any{"level": "node"}, "nodedisruptions", false},
		{"the node of a pod", map[string]any{"cpuPressure": nil, "nodeFailure": map[string]any{"shutdown": true}}, "nodedisruptions", false},
		{"the memory of a node", map[string]any{"cpuPressure": nil, "memoryPressure": map[string]any{"targetPercent": "90%"},
			"unsafeMode": map[string]any{"allowMemoryPressureWithoutLimit": true}}, "nodedisruptions", false},
		{"pods that are replaced", map[string]any{"cpuPressure": nil, "podReplacement": map[string]any{}}, "nodedisruptions", false},
		{"hosts that the operator protects", map[string]any{"network": map[string]any{"drop": int64(10), "disableDefaultAllowedHosts": true}}, "unsafedisruptions", false},
		{"no safety nets", map[string]any{"unsafeMode": map[string]any{"disableAll": true}}, "unsafedisruptions", false},
		{"all traffic", map[string]any{"unsafeMode": map[string]any{"disableNeitherHostNorPort": true}}, "unsafedisruptions", false},
		{"too many", map[string]any{"unsafeMode": map[string]any{"disableCountTooLarge": true}}, "unsafedisruptions", false},
		{"a limit of its own", map[string]any{"unsafeMode": map[string]any{"config": map[string]any{"countTooLarge": map[string]any{"clusterThreshold": int64(90)}}}}, "unsafedisruptions", false},
		{"a root that fails", map[string]any{"cpuPressure": nil, "diskFailure": root, "unsafeMode": map[string]any{"allowRootDiskFailure": true}}, "unsafedisruptions", false},
		{"a day and a second", map[string]any{"duration": "24h1s"}, "longdisruptions", true},
		{"a day and a bit, as a number", map[string]any{"duration": int64(24*3600*1e9 + 1)}, "longdisruptions", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			for user, allowed := range map[string]bool{"tenant": c.missing == "", "owner": c.byOwner, "operator": true, "admin": true} {
				ask := func() error { return create(user, c.spec) }
				if allowed { // the API server applies new rights after a moment
					eventually(t, user+" may", func() bool { return ask() == nil })
				} else {
					refused(t, ask, user+" needs the right to create "+c.missing+".chaos.squall.dev")
				}
			}
		})
	}
}

// podReplacement deletes pods and their storage only for users who may delete both.
func TestPodReplacementNeedsTheRightsToDelete(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "mover", "squall-disruptions", "default")
	bind(t, kube, "mover", "squall-node-disruptions", "")
	ask := func(replacement map[string]any) func() error {
		return func() error {
			return tried(t, "mover", "default", "disruptions", disruptionWith("moved", map[string]any{"cpuPressure": nil, "podReplacement": replacement}))
		}
	}
	refused(t, ask(map[string]any{"deleteStorage": false}), "mover needs the right to delete pods in default")
	_, err := kube.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "pod-deleter"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"delete"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bind(t, kube, "mover", "pod-deleter", "default")
	eventually(t, "without their storage pods may be replaced", func() error { return ask(map[string]any{"deleteStorage": false})() })
	refused(t, ask(map[string]any{}), "mover needs the right to delete persistentvolumeclaims in default, or sets deleteStorage to false")
}

// Only users who may exec into a pod may run commands there by a probe.
func TestProbesWithCommandsNeedTheRightToExec(t *testing.T) {
	kube := installed(t)
	bind(t, kube, "prober", "squall-disruptions", "default")
	bind(t, kube, "prober", "squall-disruption-scenarios", "default")
	probing := map[string]any{"steadyState": map[string]any{"probes": []any{map[string]any{"name": "works", "scope": "PerTarget", "exec": map[string]any{"command": []any{"true"}}}}}}
	for _, ask := range []func() error{
		func() error { return tried(t, "prober", "default", "disruptions", disruptionWith("probing", probing)) },
		func() error {
			return tried(t, "prober", "default", "disruptionscenarios", lastOfThree("probing", probing))
		},
	} {
		refused(t, ask, "prober needs the right to create pods/exec in default")
	}
	bind(t, kube, "prober", "system:aggregate-to-edit", "default")
	eventually(t, "who may exec may probe so", func() error { return tried(t, "prober", "default", "disruptions", disruptionWith("probing", probing)) })
}

// The worker reads a spec when its disruption begins, so an edit cannot write what a
// creation could not. Other changes need no right.
func TestAnEditNeedsTheRightToo(t *testing.T) {
	kube := installed(t)
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "squall-disruptions"}
	_, err := kube.RbacV1().RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "editor"}, RoleRef: ref,
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "editor"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := disruptionsAs(t, "").Create(t.Context(), aDisruption("of-pods"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ofNodes := aDisruption("of-nodes")
	ofNodes.Object["spec"].(map[string]any)["level"] = "node"
	if _, err := disruptionsAs(t, "").Create(t.Context(), ofNodes, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(name, body string) error {
		_, err := disruptionsAs(t, "editor").Patch(t.Context(), name, types.MergePatchType, []byte(body), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	refused(t, func() error { return patch("of-pods", `{"spec":{"level":"node"}}`) }, "create nodedisruptions.chaos.squall.dev")
	for _, c := range []struct{ name, body string }{
		{"of-pods", `{"spec":{"dryRun":true}}`}, {"of-nodes", `{"metadata":{"labels":{"a":"b"}}}`},
		{"of-nodes", `{"metadata":{"finalizers":["finalizer.chaos.squall.dev"]}}`},
	} {
		if err := patch(c.name, c.body); err != nil {
			t.Errorf("patch %s with %s: %v, want it accepted", c.name, c.body, err)
		}
	}
}

// Squall and the cluster's own components are never targets, for any user.
func TestNamespacesOfTheSystemAreNoTargets(t *testing.T) {
	installed(t)
	for _, namespace := range []string{"squall-system", "squall-chaos", "kube-system"} {
		in := func(level string) func() error {
			return func() error {
				d := aDisruption("inside")
				d.Object["spec"].(map[string]any)["level"] = level
				_, err := disruptionsIn(t, "", namespace).Create(t.Context(), d, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return err
			}
		}
		refused(t, in("pod"), "pods of "+namespace+" are never targets")
		if err := in("node")(); err != nil {
			t.Errorf("level node in %s: %v, want it accepted", namespace, err)
		}
	}
}

// Every sample is accepted from an administrator, and from a user with the roles for it.
func TestSamplesAreAdmitted(t *testing.T) {
	kube := installed(t)
	for _, role := range []string{"squall-disruptions", "squall-node-disruptions", "system:aggregate-to-edit"} {
		_, err := kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "chaos-team-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "chaos-team"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		sample := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &sample.Object); err != nil {
			t.Fatal(err)
		}
		if sample.GetKind() != "Disruption" {
			continue
		}
		sample.SetNamespace("default")
		for _, user := range []string{"", "chaos-team"} {
			var last error
			eventually(t, strings.TrimSpace(file+" "+user), func() bool { // the API server applies new rights after a moment
				_, last = disruptionsAs(t, user).Create(t.Context(), sample, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				return !apierrors.IsForbidden(last)
			})
			if last != nil {
				t.Errorf("%s by %q: %v", file, user, last)
			}
		}
	}
}

func disruptionsAs(t *testing.T, user string) dynamic.ResourceInterface {
	t.Helper()
	return disruptionsIn(t, user, "default")
}

// disruptionsIn returns the Disruptions of a namespace as a user sees them, or the
// administrator if user is empty.
func disruptionsIn(t *testing.T, user, namespace string) dynamic.ResourceInterface {
	t.Helper()
	config := apiserver.Start(t)
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(schema.GroupVersionResource{Group: "chaos.squall.dev", Version: "v1beta1", Resource: "disruptions"}).Namespace(namespace)
}
