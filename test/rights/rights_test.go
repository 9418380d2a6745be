// Package rights runs the programs with the rights that deploy gives them and no
// others: what they ask for beside that, the API server refuses and writes down. The other
// way, that they are given nothing that they do not use, is deploy's own test.
package rights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

const system, chaos = "squall-system", "squall-chaos"

// A disruption whose target dies, and one with probes that is stopped, of the pods of a namespace,
// need no right that deploy does not give, and bridges elect one of them.
func TestTheProgramsAskForNothingElse(t *testing.T) {
	w := world.Start(t)
	grant(w)
	as := func(program string) []string {
		return []string{"KUBECONFIG=" + asAccount(w, program), "SQUALL_CHAOS_NAMESPACE=" + chaos, "SQUALL_SYSTEM_NAMESPACE=" + system}
	}
	w.Worker(append(as("squall-worker"), "SQUALL_TASK_QUEUES=disruptions")...).Start()
	w.Worker(append(as("squall-probes"), "SQUALL_TASK_QUEUES=probes")...).Start()
	w.Bridge(append(as("squall-crdbridge"), "SQUALL_LEADER_ELECTION=true", "SQUALL_LEADER_ELECTION_NAMESPACE="+system)...).Start()
	w.Targets(3)

	first := w.Create(w.Disruption("first", 2))
	w.Injected(first)
	held := slices.Sorted(maps.Keys(first.Status.TargetInjections))
	w.Must(w.Kube.CoreV1().Pods(w.Shop).Delete(t.Context(), held[0], metav1.DeleteOptions{}))
	world.Eventually(t, w.Patience, "another target is taken", func() bool {
		_, still := first.Status.TargetInjections[held[0]]
		return w.See(first) && !still && first.Status.Targets == "2/2"
	})
	w.Must(w.Disruptions.Delete(t.Context(), first))
	w.Vanishes(first)

	second := w.Disruption("second", 1)
	ready := func(app string) v1beta1.ProbeHandler {
		return v1beta1.ProbeHandler{PodsReady: &v1beta1.PodsReadyProbe{Selector: map[string]string{"app": app}}}
	}
	second.Spec.SteadyState = &v1beta1.SteadyState{Probes: []v1beta1.Probe{
		{Name: "there", PeriodSeconds: 1, ProbeHandler: ready("web")},
		{Name: "lost", PeriodSeconds: 1, OnFailure: v1beta1.ProbeRecord, Phases: []v1beta1.ProbePhase{v1beta1.ProbeDuring}, ProbeHandler: ready("nobody")},
	}}
	second = w.Create(second)
	w.Injected(second)
	world.Eventually(t, w.Patience, "a failure of a probe is told", func() bool {
		return slices.Contains(read(w, w.AuditLog), call{"squall-probes", "create events in " + w.Shop, false})
	})
	stop := &v1beta1.EmergencyStop{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	w.Must(w.Disruptions.Create(t.Context(), stop))
	world.Eventually(t, w.Patience, "all is clean", func() bool {
		w.Must(w.Disruptions.Get(t.Context(), client.ObjectKeyFromObject(stop), stop))
		return meta.IsStatusConditionTrue(stop.Status.Conditions, v1beta1.ConditionClean)
	})
	w.Must(w.Disruptions.Delete(t.Context(), stop))

	asked := read(w, w.AuditLog)
	for _, call := range asked {
		if call.refused {
			t.Errorf("%s is refused what it asks for: %s", call.who, call.what)
		}
	}
	for _, want := range []string{
		"squall-worker create pods in " + chaos, "squall-worker create events in " + w.Shop, "squall-crdbridge create leases in " + system,
		"squall-crdbridge create events in " + system, "squall-crdbridge delete pods in " + chaos, "squall-crdbridge patch emergencystops/status",
		"squall-probes get configmaps in " + chaos, "squall-probes get services in default",
	} {
		if !slices.ContainsFunc(asked, func(c call) bool { return c.who+" "+c.what == want }) {
			t.Errorf("nobody was seen to %s", want)
		}
	}
}

// grant gives the accounts what deploy/rbac.yaml does.
func grant(w *world.World) {
	w.Helper()
	for _, name := range []string{system, chaos} {
		_, err := w.Kube.CoreV1().Namespaces().Create(w.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.Must(err)
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", "rbac.yaml"))
	w.Must(err)
	scheme := runtime.NewScheme()
	w.Must(errors.Join(rbacv1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	kube, err := client.New(w.API, client.Options{Scheme: scheme})
	w.Must(err)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			w.Fatal(err)
		}
		w.Must(kube.Create(w.Context(), object))
	}
}

// asAccount is a file that leads a program to the API server as its service account.
func asAccount(w *world.World, program string) (file string) {
	w.Helper()
	config, err := clientcmd.LoadFromFile(w.Kubeconfig(""))
	w.Must(err)
	for _, user := range config.AuthInfos {
		user.Impersonate = fmt.Sprintf("system:serviceaccount:%s:%s", system, program)
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + system, "system:authenticated"}
	}
	file = filepath.Join(w.TempDir(), "kubeconfig")
	w.Must(clientcmd.WriteToFile(*config, file))
	return file
}

// call is what a program asked the API server for.
type call struct {
	who, what string
	refused   bool
}

// read are the calls in the audit log. The API server writes down all that the programs
// ask but watches, which they would not live without.
func read(w *world.World, log string) (asked []call) {
	w.Helper()
	text, err := os.ReadFile(log)
	w.Must(err)
	for line := range strings.Lines(string(text)) {
		var event struct {
			Verb             string
			ImpersonatedUser *struct{ Username string }
			ObjectRef        *struct{ Namespace, Resource, Subresource string }
			ResponseStatus   struct{ Code int32 }
		}
		if json.Unmarshal([]byte(line), &event) != nil || event.ImpersonatedUser == nil || event.ObjectRef == nil {
			continue // being written, or about no object
		}
		what := event.Verb + " " + event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		if event.ObjectRef.Namespace != "" {
			what += " in " + event.ObjectRef.Namespace
		}
		who := event.ImpersonatedUser.Username[strings.LastIndex(event.ImpersonatedUser.Username, ":")+1:]
		asked = append(asked, call{who, what, event.ResponseStatus.Code == 403})
	}
	return asked
}

// TestWhatIsRefusedIsRead: a refusal names the missing right.
func TestWhatIsRefusedIsRead(t *testing.T) {
	w := &world.World{TB: t}
	log := filepath.Join(t.TempDir(), "audit.log")
	line := `{"verb":"get","impersonatedUser":{"username":"system:serviceaccount:squall-system:squall-worker"},"objectRef":{"resource":"secrets","namespace":"shop"},"responseStatus":{"code":403}}`
	if err := os.WriteFile(log, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := read(w, log), []call{{"squall-worker", "get secrets in shop", true}}; !slices.Equal(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
}
