package main

import (
	"context"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/workflows/contract"
)

func TestDoctorOfAnInstallation(t *testing.T) {
	l := newLive(t)
	server := temporalserver.New(t).Start() // no worker has asked this one for work yet
	doctor := func() call {
		return l.squall("doctor", "--temporal-address", server.Address, "--system-namespace", l.Shop, "--chaos-namespace", l.Chaos)
	}
	account := "system:serviceaccount:" + l.Shop + ":squall-worker"
	var first call
	l.Eventually("the API server publishes the schema of what was just installed", func() bool {
		first = doctor()
		return strings.Contains(first.out, "ok    resources: ")
	})
	l.want(first, console.ExitError,
		"ok    resources: chaos.squall.dev/v1beta1, with all fields", "ok    your rights: ",
		"fail  admission: there is no ValidatingAdmissionPolicyBinding squall-emergency-stop", "hint: install Squall again",
		"fail  squall-worker: there is no deployment squall-worker in namespace "+l.Shop,
		"fail  squall-probes: there is no deployment squall-probes in namespace "+l.Shop+": disruptions with a steady state inject nothing",
		"fail  rights of squall-worker: "+account+" may not ", "install Squall again",
		"ok    emergency stop: none is in force", "ok    opt-in: off", "ok    safe mode: off", "requesters: ",
		"ok    temporal: "+server.Address+" answers", "ok    search attributes", "ok    retention: finished workflows are kept for 840h",
		"fail  workers: no worker asks for work on task queue squall-disruptions", "warn  sweep: there is no schedule")

	stuck := l.Disruption("stuck-of-"+l.Shop, nil)
	l.becomes(stuck, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true })
	l.install()
	w := worker.New(server.Dial(client.DefaultNamespace), contract.TaskQueue, worker.Options{})
	w.RegisterWorkflowWithOptions(stuckWorkflow, workflow.RegisterOptions{Name: contract.WorkflowType})
	l.Must(w.Start())
	t.Cleanup(w.Stop)
	var last call
	l.Eventually("Temporal knows of the worker", func() bool {
		last = doctor()
		return strings.Contains(last.out, "ok    workers: ")
	})
	l.want(last, console.ExitOK, "ok    admission", "ok    opt-in: warn: users who disrupt a namespace without the label chaos.squall.dev/disruptions=allowed get a warning", "ok    safe mode: enforce", "ok    squall-worker: 2 of 2 ready, image squall:test", "ok    squall-probes: 2 of 2 ready", "warn  squall-crdbridge: 1 of 2 ready",
		"ok    rights of squall-worker: all", "ok    rights of squall-probes: all", "warn  bundled temporal: "+l.Shop+"/squall-temporal has no authentication", "a drain of its node loses all workflows", "warn  disruptions: ", l.Shop+"/stuck-of-"+l.Shop)
	l.becomes(stuck, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseFinished, false })
	l.finalize(stuck)
}

// install makes what doctor looks for, with the rights of an administrator.
func (l *live) install() {
	l.t.Helper()
	ready := map[string]int32{"squall-worker": 2, "squall-probes": 2, "squall-crdbridge": 1}
	for name, n := range ready {
		two, labels := int32(2), map[string]string{"app.kubernetes.io/name": name}
		made, err := l.Client.AppsV1().Deployments(l.Shop).Create(l.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "squall:test"}}},
			}},
		}, metav1.CreateOptions{})
		l.Must(err)
		made.Status = appsv1.DeploymentStatus{Replicas: 2, ReadyReplicas: n}
		_, err = l.Client.AppsV1().Deployments(l.Shop).UpdateStatus(l.Context(), made, metav1.UpdateOptions{})
		l.Must(err)
	}
	labels := map[string]string{"app.kubernetes.io/name": "squall-temporal"}
	_, err := l.Client.AppsV1().StatefulSets(l.Shop).Create(l.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "squall-temporal"},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "main", Image: "temporal:test"}},
				Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
			},
		}},
	}, metav1.CreateOptions{})
	l.Must(err)
	_, err = l.Client.RbacV1().ClusterRoleBindings().Create(l.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: l.Shop}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "system:serviceaccounts:" + l.Shop}},
	}, metav1.CreateOptions{})
	l.Must(err)
	bindings := l.Client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for name, action := range map[string]admissionregistrationv1.ValidationAction{"squall-emergency-stop": admissionregistrationv1.Deny, "squall-namespace-opt-in": admissionregistrationv1.Warn, "squall-safe-mode": admissionregistrationv1.Deny} {
		_, err = bindings.Create(l.Context(), &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{action},
			}}, metav1.CreateOptions{})
		l.Must(err)
		l.t.Cleanup(func() { _ = bindings.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	}
}

func TestDoctorWithoutTemporal(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("doctor", "--temporal-address", temporalserver.FreeAddress(t)), console.ExitError, "fail  temporal: ", "nothing listens there", "a Service is reached through the API server")
}

// A pod that must not reach Temporal fails when Temporal answers. It needs no API server.
func TestDoctorOfIsolation(t *testing.T) {
	answers, silent := temporalserver.Shared(t).Address, temporalserver.FreeAddress(t)
	for _, test := range []struct {
		address string
		code    int
		want    string
	}{
		{answers, console.ExitError, "fail  isolation: " + answers + " answers this pod"},
		{silent, console.ExitOK, "ok    isolation: " + silent + " does not answer this pod"},
	} {
		got := do(t.Context(), "", "doctor", "--isolation", "--temporal-address", test.address)
		if got.code != test.code || !strings.Contains(got.out, test.want) {
			t.Errorf("squall doctor --isolation = %d, %s%s, want %d and %q", got.code, got.out, got.err, test.code, test.want)
		}
	}
}

// Without an address squall uses the one of the worker.
func TestTemporalIsWhereTheWorkerFindsIt(t *testing.T) {
	l := newLive(t)
	t.Setenv("SQUALL_TEMPORAL_ADDRESS", "")
	server := temporalserver.Shared(t)
	l.workerWith(map[string]string{"SQUALL_TEMPORAL_ADDRESS": server.Address, "SQUALL_TEMPORAL_NAMESPACE": "no-such"})
	l.want(l.squall("doctor", "--system-namespace", l.Shop), console.ExitError, server.Address, "no-such")
	l.want(l.squall("history", "--system-namespace", l.Shop, "--temporal-namespace", "default"), console.ExitOK, "")
	free := temporalserver.FreeAddress(t)
	l.want(l.squall("history", "--system-namespace", l.Shop, "--temporal-address", free), console.ExitError, free)
}
