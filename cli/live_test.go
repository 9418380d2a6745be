package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/apicluster"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// asProgram makes this test's binary run as squall.
const asProgram = "SQUALL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(apiserver.Run(temporalserver.Tests{M: m}))
}

// live is a real API server, which KUBECONFIG names with the namespace of targets.
type live struct {
	*apicluster.Cluster
	t *testing.T
}

func newLive(t *testing.T) *live {
	t.Helper()
	config := apiserver.Start(t)
	l := &live{apicluster.New(t), t}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	l.Must(clientcmd.WriteToFile(kubeconfigOf(config, l.Shop), path))
	t.Setenv("KUBECONFIG", path)
	return l
}

// in is the same cluster for a test within a test.
func (l *live) in(t *testing.T) *live {
	same := *l.Cluster
	same.T = t
	return &live{&same, t}
}

func kubeconfigOf(config *rest.Config, namespace string) clientcmdapi.Config {
	return clientcmdapi.Config{
		CurrentContext: "test",
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test", Namespace: namespace}},
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		}},
	}
}

// squall runs a command against the cluster.
func (l *live) squall(args ...string) call {
	return do(l.t.Context(), "", args...)
}

// begin starts a command that takes a while.
func (l *live) begin(args ...string) <-chan call {
	ended := make(chan call, 1)
	go func() { ended <- l.squall(args...) }()
	return ended
}

// want wants a call to end with a code and to have printed all of these.
func (l *live) want(got call, code int, texts ...string) {
	l.t.Helper()
	if got.code != code {
		l.t.Errorf("exit code = %d, want %d", got.code, code)
	}
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			l.t.Errorf("it does not say %q", text)
		}
	}
	if l.t.Failed() {
		l.t.Logf("it said:\n%s--- errors\n%s", got.out, got.err)
	}
}

// becomes writes the status of a disruption as a workflow would.
func (l *live) becomes(ref v1beta1.DisruptionRef, change func(*v1beta1.DisruptionStatus)) {
	l.t.Helper()
	l.Must(l.Objects.UpdateStatus(l.Context(), ref, func(d *v1beta1.Disruption) { change(&d.Status) }))
}

// finalize removes the finalizer, as a workflow does in the end.
func (l *live) finalize(ref v1beta1.DisruptionRef) {
	l.t.Helper()
	l.Must(l.Plain.Patch(types.MergePatchType).Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).
		Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(l.Context()).Error())
}

// deleting waits until the disruption is being deleted.
func (l *live) deleting(ref v1beta1.DisruptionRef) {
	l.t.Helper()
	l.Eventually("the disruption is being deleted", func() bool { return l.Get(ref).DeletionTimestamp != nil })
}

func TestStop(t *testing.T) {
	l := newLive(t)
	t.Run("it waits until nothing is left", func(t *testing.T) {
		ref := l.Disruption("lossy", nil)
		ended := l.begin("stop", "lossy")
		l.deleting(ref)
		l.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.Phase = v1beta1.PhaseCleaning })
		l.finalize(ref)
		l.want(<-ended, console.ExitOK, "nothing is left of disruption "+l.Shop+"/lossy")
	})
	t.Run("it does not wait when that is not wanted", func(t *testing.T) {
		ref := l.Disruption("detached", nil)
		l.want(l.squall("stop", "detached", "--detach"), console.ExitOK, "is being ended")
		l.deleting(ref)
		l.finalize(ref)
	})
	t.Run("it says what is stuck", func(t *testing.T) {
		ref := l.Disruption("stuck", nil)
		ended := l.begin("stop", "stuck")
		l.deleting(ref)
		l.becomes(ref, func(s *v1beta1.DisruptionStatus) {
			s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true
			s.Conditions = []metav1.Condition{{Type: v1beta1.ConditionStuckOnRemoval, Status: metav1.ConditionTrue, Reason: "CleaningFailed",
				Message: "io.max: busy", LastTransitionTime: metav1.Now()}}
		})
		l.want(<-ended, console.ExitStuck, "io.max: busy", "squall -n "+l.Shop+" resume stuck --action retry")
		l.want(l.squall("list", "--stuck"), console.ExitOK, "stuck   Stuck")
		l.finalize(ref)
	})
	t.Run("it waits no longer than it may", func(t *testing.T) {
		ref := l.Disruption("slow", nil)
		l.want(l.squall("stop", "slow", "--timeout", "10ms"), console.ExitError, "the clean-up continues")
		l.finalize(ref)
	})
}

func TestListAndStatus(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("list"), console.ExitOK, "no disruption in namespace "+l.Shop)
	ref := l.Disruption("lossy", nil)
	l.becomes(ref, func(s *v1beta1.DisruptionStatus) {
		s.Phase, s.Targets, s.InjectionStatus = v1beta1.PhaseHolding, "2/2", v1beta1.Injected
	})
	l.want(l.squall("list"), console.ExitOK, "NAME    PHASE", "lossy   Holding   cpu-pressure   2/2       Injected")
	l.want(l.squall("list", "-A"), console.ExitOK, "NAMESPACE", l.Shop)
	if bare := l.squall("list", "--no-headers"); strings.Contains(bare.out, "PHASE") || !strings.HasPrefix(bare.out, "lossy ") {
		t.Errorf("list --no-headers = %q, want the row of lossy only", bare.out)
	}
	l.want(l.squall("list", "-l", "no.such/label=x"), console.ExitOK, "no disruption in namespace "+l.Shop)
	l.want(l.squall("list", "-l", "!no.such/label"), console.ExitOK, "lossy   Holding")
	l.want(l.squall("list", "-l", "a=b=c"), console.ExitUsage, "such as -l team=shop")
	l.want(l.squall("status"), console.ExitOK, "lossy   Holding")
	l.want(l.squall("status", "lossy"), console.ExitOK, l.Shop+"/lossy", "2/2 injected, Injected")
	l.want(l.squall("status", "losy"), console.ExitError, `there is no disruption "losy" in namespace "`+l.Shop+`": did you mean "lossy"?`)
	elsewhere := l.Disruption("of-"+l.Shop, nil) // no other test has one of this name
	l.want(l.squall("status", elsewhere.Name, "-n", l.Chaos), console.ExitError, fmt.Sprintf("use -n %s", l.Shop))
	l.finalize(elsewhere)
	l.want(l.squall("__complete", "stop", ""), console.ExitOK, "lossy\tHolding")
	var read v1beta1.Disruption
	if err := json.Unmarshal([]byte(l.squall("status", "lossy", "-o", "json").out), &read); err != nil || read.Kind != "Disruption" || read.UID != ref.UID {
		t.Errorf("as JSON it is %+v, %v", read, err)
	}
	var list v1beta1.DisruptionList
	if err := json.Unmarshal([]byte(l.squall("list", "-o", "json").out), &list); err != nil || len(list.Items) != 2 || list.Items[0].Kind != "Disruption" {
		t.Errorf("as JSON they are %+v, %v", list, err)
	}
	l.finalize(ref)
}

func TestEmergencyStop(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("estop"), console.ExitOK, "no emergency stop is in force")
	ended := l.begin("estop", "on", "--reason", "payment is down")
	l.Eventually("there is a stop", func() bool {
		return l.Plain.Get().Resource("emergencystops").Name("all").Do(l.Context()).Error() == nil
	})
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue} {
		l.Must(l.Plain.Patch(types.MergePatchType).Resource("emergencystops").Name("all").SubResource("status").
			Body(fmt.Appendf(nil, `{"status":{"stopped":2,"conditions":[{"type":"Clean","status":%q,"reason":"R","message":"waits","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`, status)).
			Do(l.Context()).Error())
	}
	l.want(<-ended, console.ExitOK, "the cluster is clean")
	l.want(l.squall("estop", "on", "--reason", "again"), console.ExitOK, "in force already")
	l.want(l.squall("status"), console.ExitOK, "emergency stop all: payment is down", "nothing is disrupted")
	l.want(l.squall("estop", "off"), console.ExitOK, "emergency stop all is called off")
	l.want(l.squall("estop", "off"), console.ExitOK, "no emergency stop is in force")
	l.want(l.squall("estop", "maybe"), console.ExitUsage, "maybe")
}

// forgetOthers deletes the objects that earlier tests left in the same API server.
func (l *live) forgetOthers() {
	l.t.Helper()
	for _, resource := range []string{"disruptions", "disruptioncrons", "disruptionrollouts", "disruptionscenarios"} {
		var list metav1.PartialObjectMetadataList
		text, err := l.Plain.Get().Resource(resource).Do(l.Context()).Raw()
		l.Must(err)
		l.Must(json.Unmarshal(text, &list))
		for _, o := range list.Items {
			one := func(r *rest.Request) error {
				return client.IgnoreNotFound(r.Namespace(o.Namespace).Resource(resource).Name(o.Name).Do(l.Context()).Error())
			}
			l.Must(one(l.Plain.Patch(types.MergePatchType).Body([]byte(`{"metadata":{"finalizers":null}}`))))
			l.Must(one(l.Plain.Delete()))
		}
	}
}

// rule S14: squall uninstall ends everything before Squall is removed, and shows what is
// stuck.
func TestUninstall(t *testing.T) {
	l := newLive(t)
	l.forgetOthers()
	t.Cleanup(func() {
		_ = l.Plain.Delete().Resource("emergencystops").Name("uninstall").Do(context.Background()).Error()
	})
	ref := l.Disruption("lossy", nil)
	cron := &v1beta1.DisruptionCron{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "DisruptionCron"},
		ObjectMeta: metav1.ObjectMeta{Name: "noon", Namespace: l.Shop},
		Spec: v1beta1.DisruptionCronSpec{
			Schedule: "0 12 * * *", TargetResource: v1beta1.TargetResource{Kind: "deployment", Name: "shop"}, DisruptionTemplate: l.Get(ref).Spec,
		},
	}
	l.Must(l.Plain.Post().Namespace(l.Shop).Resource("disruptioncrons").Body(cron).Do(l.Context()).Error())
	rollout := &v1beta1.DisruptionRollout{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: v1beta1.KindDisruptionRollout},
		ObjectMeta: metav1.ObjectMeta{Name: "releases", Namespace: l.Shop},
		Spec:       v1beta1.DisruptionRolloutSpec{TargetResource: cron.Spec.TargetResource, DisruptionTemplate: cron.Spec.DisruptionTemplate},
	}
	l.Must(l.Plain.Post().Namespace(l.Shop).Resource("disruptionrollouts").Body(rollout).Do(l.Context()).Error())
	record, err := l.Client.CoreV1().ConfigMaps(l.Chaos).Create(l.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "record", Labels: map[string]string{v1beta1.LabelDisruptionUID: string(ref.UID)}}}, metav1.CreateOptions{})
	l.Must(err)
	l.want(l.squall("uninstall", "--chaos-namespace", l.Chaos), console.ExitError, "2 DisruptionCrons, DisruptionRollouts and DisruptionScenarios, ", "1 records are left", "squall uninstall --yes")
	if l.Get(ref).DeletionTimestamp != nil {
		t.Error("without --yes it deletes")
	}
	l.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.IsStuckOnRemoval = true })
	uninstall := func() call { return l.squall("uninstall", "-y", "--chaos-namespace", l.Chaos) }
	l.want(uninstall(), console.ExitStuck, l.Shop+"/lossy")
	l.want(l.squall("estop"), console.ExitOK, "Squall is being uninstalled")
	if err := l.Plain.Get().Namespace(l.Shop).Resource("disruptioncrons").Name("noon").Do(l.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("the cron is there: %v", err)
	}
	l.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.IsStuckOnRemoval = false })
	ended := l.begin("uninstall", "--yes", "--chaos-namespace", l.Chaos)
	l.finalize(ref)
	l.Must(l.Client.CoreV1().ConfigMaps(l.Chaos).Delete(l.Context(), record.Name, metav1.DeleteOptions{}))
	l.want(<-ended, console.ExitOK, "nothing is left to be cleaned", "helm uninstall squall", "squall-sweep")
	l.want(l.squall("estop", "off", "--name", "uninstall"), console.ExitOK, "is called off")
}

func TestAClusterThatIsAway(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(kubeconfigOf(&rest.Config{Host: "https://127.0.0.1:1"}, "shop"), path); err != nil {
		t.Fatal(err)
	}
	got := do(t.Context(), "", "list", "--kubeconfig", path)
	if got.code != console.ExitError || !strings.Contains(got.err, "the API server at https://127.0.0.1:1 does not answer: choose the cluster by --context") {
		t.Errorf("squall list = %+v", got)
	}
	got = do(t.Context(), "", "list", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if got.code != console.ExitError || !strings.Contains(got.err, "no such file") {
		t.Errorf("squall list with a file that is not there = %+v", got)
	}
}

// may gives a user in the namespace of targets the rights of a ClusterRole of deploy.
func (l *live) may(user, role string) {
	l.t.Helper()
	file, err := os.ReadFile("../deploy/rbac.yaml")
	l.Must(err)
	for document := range strings.SplitSeq(string(file), "\n---\n") {
		var of rbacv1.ClusterRole
		if l.Must(yaml.Unmarshal([]byte(document), &of)); of.Name != role {
			continue
		}
		_, err = l.Client.RbacV1().Roles(l.Shop).Create(l.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: of.Rules}, metav1.CreateOptions{})
		l.Must(err)
		_, err = l.Client.RbacV1().RoleBindings(l.Shop).Create(l.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
		}, metav1.CreateOptions{})
		l.Must(err)
		return
	}
	l.t.Fatalf("deploy/rbac.yaml has no ClusterRole %s", role)
}

// A user with squall-disruptions and nothing else sees what the role allows, and which
// right is missing for the rest.
func TestWithTheRoleOfDisruptionsOnly(t *testing.T) {
	l := newLive(t)
	ref := l.Disruption("lossy", nil)
	l.becomes(ref, holding)
	l.may("ann", "squall-disruptions")
	l.want(l.squall("list", "--as", "ann"), console.ExitOK, "lossy   Holding")
	l.want(l.squall("status", "lossy", "--as", "ann"), console.ExitOK, "2/2 injected")
	got := l.squall("status", "--as", "ann")
	l.want(got, console.ExitOK, "lossy   Holding")
	if want := "unknown whether an emergency stop is in force: you may not list emergencystops.chaos.squall.dev"; !strings.HasPrefix(got.err, want) {
		t.Errorf("errors = %q, want %q", got.err, want)
	}
	if found := l.squall("status", "--as", "ann", "-o", "json"); !strings.Contains(found.out, `"emergencyStops": null`) {
		t.Errorf("status -o json = %s, want no list of stops", found.out)
	}
	l.want(do(t.Context(), planned, "plan", "-", "--as", "ann", "--chaos-namespace", l.Chaos), console.ExitOK,
		"targets    unknown: you may not list pods in namespace "+l.Shop, "you may not list DisruptionPolicies", "the worker's settings cannot be read")
	l.finalize(ref)
}

func TestWhoMayNot(t *testing.T) {
	l := newLive(t)
	l.want(l.squall("list", "--as", "nobody"), console.ExitError, "forbidden", `User "nobody"`)
}
