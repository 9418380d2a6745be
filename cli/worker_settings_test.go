package main

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/cli/console"
)

// workerWith makes a worker in the namespace of targets, which has these settings.
func (l *live) workerWith(values map[string]string) {
	l.t.Helper()
	const name = "squall-settings-of-this-version"
	_, err := l.Client.CoreV1().ConfigMaps(l.Shop).Create(l.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: values}, metav1.CreateOptions{})
	l.Must(err)
	labels := map[string]string{"app.kubernetes.io/name": "squall-worker"}
	_, err = l.Client.AppsV1().Deployments(l.Shop).Create(l.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "squall-worker"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "worker", Image: "squall:test", EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: name}}}},
			}}}}},
	}, metav1.CreateOptions{})
	l.Must(err)
}

// set changes settings of that worker.
func (l *live) set(values map[string]string) {
	l.t.Helper()
	maps := l.Client.CoreV1().ConfigMaps(l.Shop)
	now, err := maps.Get(l.Context(), "squall-settings-of-this-version", metav1.GetOptions{})
	l.Must(err)
	now.Data = values
	_, err = maps.Update(l.Context(), now, metav1.UpdateOptions{})
	l.Must(err)
}

// A plan uses the operator's settings, and names what it could not know.
func TestPlanByTheSettingsOfTheWorker(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(4, nil)
	most := strings.Replace(planned, "50%", "100%", 1)
	plan := func(manifest string, more ...string) call {
		return do(t.Context(), manifest, append([]string{"plan", "-", "--system-namespace", l.Shop}, more...)...)
	}
	quiet := func(got call, text string) {
		t.Helper()
		if strings.Contains(got.out, text) {
			t.Errorf("it prints %q:\n%s", text, got.out)
		}
	}
	l.want(plan(most), console.ExitOK, "assumed", "control-plane-nodes false, safe-mode warn, limits 80 % and 66 %", "there is no deployment squall-worker in namespace "+l.Shop,
		"safe mode, unless the operator set other limits: 4 of the 4 pods")
	l.workerWith(nil)
	got := plan(most)
	l.want(got, console.ExitOK, "safe mode: 4 of the 4 pods")
	quiet(got, "assumed")
	l.set(map[string]string{"SQUALL_SAFE_MODE": "enforce"})
	l.want(plan(most), console.ExitError, "safe mode, which is enforced: 4 of the 4 pods")
	l.set(map[string]string{"SQUALL_SAFE_MODE": "off"})
	quiet(plan(most), "safe mode")
	l.set(map[string]string{"SQUALL_SAFE_MODE_NAMESPACE_THRESHOLD": "100", "SQUALL_SAFE_MODE_CLUSTER_THRESHOLD": "100"})
	quiet(plan(most), "safe mode")
	l.set(map[string]string{"SQUALL_SAFE_MODE_NAMESPACE_THRESHOLD": "many"})
	l.want(plan(most), console.ExitOK, "assumed", `safe-mode-namespace-threshold is "many"`)

	node, err := l.Client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "control-", Labels: map[string]string{"of": l.Shop, "node-role.kubernetes.io/control-plane": ""},
	}}, metav1.CreateOptions{})
	l.Must(err)
	t.Cleanup(func() { _ = l.Client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = l.Client.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	l.Must(err)
	ofNode := strings.NewReplacer("app: web", "of: "+l.Shop, "count: 50%", "level: node, count: 1").Replace(planned)
	l.set(nil)
	l.want(plan(ofNode), console.ExitError, "it is a node of the control plane")
	l.set(map[string]string{"SQUALL_CONTROL_PLANE_NODES": "true"})
	l.want(plan(ofNode), console.ExitOK, node.Name)

	// The worker keeps records in its chaos namespace, unless --chaos-namespace names
	// another.
	holder := l.Get(l.Disruption("holder", nil))
	healthy, err := l.Store.Healthy(t.Context(), holder)
	l.Must(err)
	_, err = l.Store.Claim(t.Context(), holder, targets.Choice{}, healthy, nil)
	l.Must(err)
	l.set(map[string]string{"SQUALL_CHAOS_NAMESPACE": l.Chaos})
	l.want(plan(planned), console.ExitOK, "held by "+l.Shop+"/holder")
	quiet(plan(planned, "--chaos-namespace", "elsewhere"), "held by")
}

// A user who may not read the settings sees which were assumed, and why.
func TestPlanOfWhoMayNotReadTheSettings(t *testing.T) {
	l := newLive(t)
	l.MakeTargets(2, nil)
	l.workerWith(map[string]string{"SQUALL_SAFE_MODE": "off"})
	user := "ann-of-" + l.Shop
	_, err := l.Client.RbacV1().Roles(l.Shop).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "ann"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}},
		{APIGroups: []string{"chaos.squall.dev"}, Resources: []string{"disruptions"}, Verbs: []string{"create"}},
	}}, metav1.CreateOptions{})
	l.Must(err)
	_, err = l.Client.RbacV1().RoleBindings(l.Shop).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "ann"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	l.Must(err)
	var got call
	l.Eventually("ann may list pods", func() bool {
		got = do(t.Context(), planned, "plan", "-", "--system-namespace", l.Shop, "--as", user)
		return strings.Contains(got.out, "targets")
	})
	l.want(got, got.code, "assumed", "safe-mode warn", "the worker's settings cannot be read", user)
}
