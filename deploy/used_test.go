package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// use is a program's use of a right: a call in a file of a package that the program links.
// A review checks whether the call is about that resource.
type use struct{ file, call string }

// uses has the use of every right of the programs' roles, by the role and the text of
// Right.String. The worker's rights to probes, which squall-probes asks now, are for
// workers from before an upgrade.
var uses = map[string]map[string]use{
	"rbac.yaml ClusterRole squall-crdbridge": {
		"get disruptions everywhere":                     {"crdbridge/orphan/reconciler.go", `r.live.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, found)`},
		"list disruptions everywhere":                    {"crdbridge/disruption/watches.go", `For(&v1beta1.Disruption{})`},
		"watch disruptions everywhere":                   {"crdbridge/disruption/watches.go", `For(&v1beta1.Disruption{})`},
		"patch disruptions everywhere":                   {"crdbridge/disruption/reconciler.go", `r.client.Patch(ctx, d, patch, client.FieldOwner(fieldManager))`},
		"delete disruptions everywhere":                  {"crdbridge/runs/runs.go", `k.Client.Delete(ctx, d, client.Preconditions{UID: &d.UID})`},
		"list disruptioncrons everywhere":                {"crdbridge/cron/reconciler.go", `For(&v1beta1.DisruptionCron{}`},
		"watch disruptioncrons everywhere":               {"crdbridge/cron/reconciler.go", `For(&v1beta1.DisruptionCron{}`},
		"patch disruptioncrons everywhere":               {"crdbridge/cron/reconciler.go", `r.runs.EnsureFinalizer(ctx, c)`},
		"list disruptionrollouts everywhere":             {"crdbridge/rollout/reconciler.go", `For(&v1beta1.DisruptionRollout{}`},
		"watch disruptionrollouts everywhere":            {"crdbridge/rollout/reconciler.go", `For(&v1beta1.DisruptionRollout{}`},
		"patch disruptionrollouts everywhere":            {"crdbridge/rollout/reconciler.go", `r.runs.EnsureFinalizer(ctx, o)`},
		"list disruptionscenarios everywhere":            {"crdbridge/scenario/reconciler.go", `For(&v1beta1.DisruptionScenario{})`},
		"watch disruptionscenarios everywhere":           {"crdbridge/scenario/reconciler.go", `For(&v1beta1.DisruptionScenario{})`},
		"patch disruptionscenarios everywhere":           {"crdbridge/scenario/reconciler.go", `r.runs.EnsureFinalizer(ctx, s)`},
		"patch disruptions/status everywhere":            {"crdbridge/condition/condition.go", `c.Status().Apply(ctx,`},
		"patch disruptioncrons/status everywhere":        {"crdbridge/cron/status.go", `r.client.Status().Apply(ctx,`},
		"patch disruptionrollouts/status everywhere":     {"crdbridge/rollout/status.go", `r.client.Status().Patch(ctx, o,`},
		"patch disruptionscenarios/status everywhere":    {"crdbridge/scenario/reconciler.go", `r.client.Status().Patch(ctx, s,`},
		"patch emergencystops/status everywhere":         {"crdbridge/emergencystop/status.go", `r.client.Status().Apply(ctx,`},
		"list emergencystops everywhere":                 {"crdbridge/emergencystop/reconciler.go", `r.live.List(ctx, &stops)`},
		"watch emergencystops everywhere":                {"crdbridge/emergencystop/reconciler.go", `Watches(&v1beta1.EmergencyStop{}`},
		"list disruptionpolicies everywhere":             {"crdbridge/disruption/watches.go", `Watches(&v1beta1.DisruptionPolicy{}`},
		"watch disruptionpolicies everywhere":            {"crdbridge/disruption/watches.go", `Watches(&v1beta1.DisruptionPolicy{}`},
		"list pods everywhere":                           {"crdbridge/disruption/watches.go", `Watches(&corev1.Pod{}`},
		"watch pods everywhere":                          {"crdbridge/disruption/watches.go", `Watches(&corev1.Pod{}`},
		"list nodes everywhere":                          {"crdbridge/disruption/watches.go", `Watches(&corev1.Node{}`},
		"watch nodes everywhere":                         {"crdbridge/disruption/watches.go", `Watches(&corev1.Node{}`},
		"get namespaces named kube-system everywhere":    {"crdbridge/temporal/identity.go", `i.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)`},
		"list namespaces named squall-chaos everywhere":  {"crdbridge/disruption/watches.go", `Watches(&corev1.Namespace{}`},
		"watch namespaces named squall-chaos everywhere": {"crdbridge/disruption/watches.go", `Watches(&corev1.Namespace{}`},
		"list services everywhere":                       {"crdbridge/service/watches.go", `cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "services"`},
		"watch services everywhere":                      {"crdbridge/service/watches.go", `cache.NewListWatchFromClient(w.client.CoreV1().RESTClient(), "services"`},
		"list endpointslices everywhere":                 {"crdbridge/service/watches.go", `cache.NewFilteredListWatchFromClient(w.client.DiscoveryV1().RESTClient(), "endpointslices"`},
		"watch endpointslices everywhere":                {"crdbridge/service/watches.go", `cache.NewFilteredListWatchFromClient(w.client.DiscoveryV1().RESTClient(), "endpointslices"`},
		"list deployments everywhere":                    {"crdbridge/rollout/watches.go", `cache.NewListWatchFromClient(w.client.AppsV1().RESTClient(), resource`},
		"watch deployments everywhere":                   {"crdbridge/rollout/watches.go", `cache.NewListWatchFromClient(w.client.AppsV1().RESTClient(), resource`},
		"list statefulsets everywhere":                   {"crdbridge/rollout/watches.go", `cache.NewListWatchFromClient(w.client.AppsV1().RESTClient(), resource`},
		"watch statefulsets everywhere":                  {"crdbridge/rollout/watches.go", `cache.NewListWatchFromClient(w.client.AppsV1().RESTClient(), resource`},
		"list poddisruptionbudgets everywhere":           {"crdbridge/disruption/watches.go", `Watches(&policyv1.PodDisruptionBudget{}`},
		"watch poddisruptionbudgets everywhere":          {"crdbridge/disruption/watches.go", `Watches(&policyv1.PodDisruptionBudget{}`},
	},
	"rbac.yaml Role squall-system/squall-crdbridge": {
		"create leases in squall-system":                        {"crdbridge/manager.go", `LeaderElection: `},
		"get leases named squall-crdbridge in squall-system":    {"crdbridge/manager.go", `LeaderElectionID: `},
		"update leases named squall-crdbridge in squall-system": {"crdbridge/manager.go", `LeaderElectionID: `},
		"create events in squall-system":                        {"crdbridge/manager.go", `LeaderElection: `}, // the leading bridge
	},
	"rbac.yaml Role squall-chaos/squall-crdbridge": {
		"delete pods in squall-chaos":     {"crdbridge/emergencystop/reconciler.go", `r.client.Delete(ctx, pod, client.Preconditions{UID: &pod.UID})`},
		"list configmaps in squall-chaos": {"crdbridge/disruption/untouched.go", `r.live.List(ctx, left, client.InNamespace(r.chaosNamespace)`},
	},
	"rbac.yaml ClusterRole squall-worker": {
		"get disruptions everywhere":                   {"activities/status/disruptions.go", `c.client.Get().Namespace(ref.Namespace).Resource("disruptions")`},
		"list disruptions everywhere":                  {"activities/status/disruptions.go", `c.client.Get().Resource("disruptions").Param("limit"`},
		"patch disruptions everywhere":                 {"activities/status/disruptions.go", `c.client.Patch(types.JSONPatchType).Namespace(ref.Namespace).Resource("disruptions")`},
		"create disruptions everywhere":                {"activities/scenarios/begin.go", `a.Client.Post().Namespace(want.Namespace).Resource(disruptions)`},
		"delete disruptions everywhere":                {"activities/scenarios/scenarios.go", `a.Client.Delete().Namespace(d.Namespace).Resource(disruptions)`},
		"get disruptioncrons everywhere":               {"activities/crons/parent.go", `a.Client.Get().Namespace(ref.Namespace).Resource(found.resource)`},
		"get disruptionrollouts everywhere":            {"activities/crons/parent.go", `a.Client.Get().Namespace(ref.Namespace).Resource(found.resource)`},
		"get disruptionscenarios everywhere":           {"activities/scenarios/scenarios.go", `client.Get().Namespace(ref.Namespace).Resource(scenarios)`},
		"update disruptions/status everywhere":         {"activities/status/disruptions.go", `c.client.Put().Namespace(ref.Namespace).Resource("disruptions")`},
		"update disruptioncrons/status everywhere":     {"activities/crons/crons.go", `a.Client.Put().Namespace(ref.Namespace).Resource(c.resource)`},
		"update disruptionrollouts/status everywhere":  {"activities/crons/crons.go", `a.Client.Put().Namespace(ref.Namespace).Resource(c.resource)`},
		"update disruptionscenarios/status everywhere": {"activities/scenarios/scenarios.go", `a.Client.Put().Namespace(s.Namespace).Resource(scenarios)`},
		"list emergencystops everywhere":               {"activities/status/disruptions.go", `request.Resource("emergencystops").Do(ctx).Into(&list)`},
		"list disruptionpolicies everywhere":           {"activities/policy/watch.go", `cache.NewListWatchFromClient(client, "disruptionpolicies"`},
		"watch disruptionpolicies everywhere":          {"activities/policy/watch.go", `cache.NewListWatchFromClient(client, "disruptionpolicies"`},
		"get nodes everywhere":                         {"activities/cluster/target.go", `CoreV1().Nodes().Get(ctx,`},
		"list nodes everywhere":                        {"activities/targets/candidates.go", `CoreV1().Nodes().List,`},
		"watch nodes everywhere":                       {"activities/census/census.go", `of.Watch(ctx, options)`},
		"get pods everywhere":                          {"activities/cluster/target.go", `CoreV1().Pods(ref.Namespace).Get(ctx,`},
		"list pods everywhere":                         {"activities/targets/pod_lists.go", `CoreV1().Pods(namespace).List,`},
		"watch pods everywhere":                        {"activities/census/census.go", `of.Watch(ctx, options)`},
		"get deployments everywhere":                   {"activities/crons/begin.go", `apps.Deployments(namespace).Get(ctx,`},
		"get statefulsets everywhere":                  {"activities/crons/begin.go", `apps.StatefulSets(namespace).Get(ctx,`},
		"get namespaces named kube-system everywhere":  {"worker/identity.go", `CoreV1().Namespaces().Get(ctx,`},
		"get services everywhere":                      {"activities/hosts/services.go", `CoreV1().Services(want.Namespace).Get(ctx,`},
		"list services everywhere":                     {"activities/probe/namespace.go", `factory.Core().V1().Services().Informer()`},
		"watch services everywhere":                    {"activities/probe/namespace.go", `factory.Core().V1().Services().Informer()`},
		"list endpointslices everywhere":               {"activities/hosts/services.go", `DiscoveryV1().EndpointSlices(want.Namespace).List,`},
		"watch endpointslices everywhere":              {"activities/probe/namespace.go", `factory.Discovery().V1().EndpointSlices().Informer()`},
		"list poddisruptionbudgets everywhere":         {"activities/targets/budgets.go", `PolicyV1().PodDisruptionBudgets(d.Namespace).List,`},
		"create events everywhere":                     {"activities/status/events.go", `CoreV1().Events(event.Namespace).Create(`},
	},
	"rbac.yaml Role squall-chaos/squall-worker": {
		"create pods in squall-chaos":                 {"activities/chaospod/create.go", `RESTClient().Post().Namespace(pod.Namespace).Resource("pods")`},
		"update pods in squall-chaos":                 {"activities/clean/advance.go", `RESTClient().Put().Namespace(a.Namespace).Resource("pods")`},
		"patch pods in squall-chaos":                  {"activities/inject/services.go", `CoreV1().Pods(a.Namespace).Patch(ctx,`},
		"delete pods in squall-chaos":                 {"activities/clean/advance.go", `CoreV1().Pods(a.Namespace).Delete(ctx,`},
		"deletecollection pods in squall-chaos":       {"activities/orphans/nodes.go", `CoreV1().Pods(a.Builder.Namespace).DeleteCollection(ctx,`},
		"get pods/log in squall-chaos":                {"activities/inject/effects.go", `CoreV1().Pods(pod.Namespace).GetLogs(`},
		"get configmaps in squall-chaos":              {"activities/targets/shard.go", `CoreV1().ConfigMaps(s.Namespace).Get(ctx,`},
		"list configmaps in squall-chaos":             {"activities/targets/shard.go", `CoreV1().ConfigMaps(s.Namespace).List,`},
		"watch configmaps in squall-chaos":            {"activities/targets/shard_watch.go", `cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps"`},
		"create configmaps in squall-chaos":           {"activities/targets/claims.go", `CoreV1().ConfigMaps(s.Namespace).Create(ctx,`},
		"update configmaps in squall-chaos":           {"activities/targets/shard.go", `CoreV1().ConfigMaps(s.Namespace).Update(ctx,`},
		"delete configmaps in squall-chaos":           {"activities/targets/claims.go", `CoreV1().ConfigMaps(s.Namespace).Delete(ctx,`},
		"deletecollection configmaps in squall-chaos": {"activities/targets/spec_record.go", `CoreV1().ConfigMaps(s.Namespace).DeleteCollection(ctx,`},
	},
	"rbac.yaml ClusterRole squall-probes": {
		"get disruptionscenarios everywhere":          {"activities/scenarios/scenarios.go", `client.Get().Namespace(ref.Namespace).Resource(scenarios)`},
		"list pods everywhere":                        {"activities/probe/namespace.go", `factory.Core().V1().Pods().Informer()`},
		"watch pods everywhere":                       {"activities/probe/namespace.go", `factory.Core().V1().Pods().Informer()`},
		"get services everywhere":                     {"activities/probe/namespace.go", `CoreV1().Services(metav1.NamespaceDefault).Get(ctx,`},
		"list services everywhere":                    {"activities/probe/namespace.go", `factory.Core().V1().Services().Informer()`},
		"watch services everywhere":                   {"activities/probe/namespace.go", `factory.Core().V1().Services().Informer()`},
		"list endpointslices everywhere":              {"activities/probe/namespace.go", `factory.Discovery().V1().EndpointSlices().Informer()`},
		"watch endpointslices everywhere":             {"activities/probe/namespace.go", `factory.Discovery().V1().EndpointSlices().Informer()`},
		"get namespaces named kube-system everywhere": {"worker/identity.go", `CoreV1().Namespaces().Get(ctx,`},
		"create events everywhere":                    {"activities/status/events.go", `CoreV1().Events(event.Namespace).Create(`},
	},
	"rbac.yaml Role squall-chaos/squall-probes": {
		"get configmaps in squall-chaos":   {"activities/targets/spec_record.go", `CoreV1().ConfigMaps(s.Namespace).Get(ctx,`},
		"list configmaps in squall-chaos":  {"activities/targets/shard_watch.go", `cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps"`},
		"watch configmaps in squall-chaos": {"activities/targets/shard_watch.go", `cache.NewFilteredListWatchFromClient(clientset.CoreV1().RESTClient(), "configmaps"`},
	},
	"components/namespace-opt-in-enforce/rbac.yaml ClusterRole squall-namespace-opt-in": {
		"get namespaces everywhere": {"activities/permission/rules.go", `CoreV1().Namespaces().Get(ctx, d.Namespace`},
	},
	"components/pod-replacement/rbac.yaml ClusterRole squall-pod-replacement": {
		"patch nodes everywhere":                   {"activities/replacement/cordon.go", `CoreV1().Nodes().Patch(ctx,`},
		"delete pods everywhere":                   {"activities/replacement/pods.go", `CoreV1().Pods(p.Namespace).Delete(ctx,`},
		"get persistentvolumeclaims everywhere":    {"activities/replacement/pods.go", `CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx,`},
		"delete persistentvolumeclaims everywhere": {"activities/replacement/pods.go", `CoreV1().PersistentVolumeClaims(p.Namespace).Delete(ctx,`},
	},
	"components/probe-exec/rbac.yaml ClusterRole squall-probe-exec": {
		"get pods/exec everywhere":    {"activities/probe/exec.go", `remotecommand.NewWebSocketExecutor(e.Config, "GET"`},
		"create pods/exec everywhere": {"activities/probe/exec.go", `RESTClient().Post().Resource("pods")`},
	},
	"components/pod-operations/rbac.yaml ClusterRole squall-pod-operations": {
		"patch pods everywhere":                         {"activities/operate/operate.go", `CoreV1().Pods(namespace).Patch(ctx,`},
		"list mutatingwebhookconfigurations everywhere": {"activities/prepare/driver.go", `AdmissionregistrationV1().MutatingWebhookConfigurations().List,`},
	},
	"components/pod-operations/protection.yaml ClusterRole squall-pod-protection": {
		"get pods everywhere":      {"crdbridge/podops/reconciler.go", `live.Get(ctx, client.ObjectKeyFromObject(pod), &now)`},
		"patch pods everywhere":    {"crdbridge/podops/protection.go", `p.client.Patch(ctx, to, client.RawPatch(kind, patch))`},
		"create events everywhere": {"crdbridge/podops/protection.go", `p.client.Create(ctx, newEvent(`},
	},
	"components/pod-ops-driver/rbac.yaml ClusterRole squall-pod-ops-driver": {
		"get pods everywhere":                            {"crdbridge/podops/reconciler.go", `live.Get(ctx, client.ObjectKeyFromObject(pod), &now)`},
		"patch pods everywhere":                          {"crdbridge/podops/reconciler.go", `r.client.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch))`},
		"patch pods/status everywhere":                   {"crdbridge/podops/reconciler.go", `r.client.Status().Patch(ctx, to,`},
		"list mutatingwebhookconfigurations everywhere":  {"crdbridge/podops/reconciler.go", `Watches(&admissionv1.MutatingWebhookConfiguration{}`},
		"watch mutatingwebhookconfigurations everywhere": {"crdbridge/podops/reconciler.go", `Watches(&admissionv1.MutatingWebhookConfiguration{}`},
	},
	"components/graceful-delete/rbac.yaml ClusterRole squall-graceful-delete": {
		"get validatingwebhookconfigurations named squall-graceful-delete everywhere":    {"crdbridge/certificate/certificate.go", `k.live.Get(ctx, types.NamespacedName{Name: k.place.Configuration}`},
		"update validatingwebhookconfigurations named squall-graceful-delete everywhere": {"crdbridge/certificate/certificate.go", `k.client.Update(ctx, configuration)`},
		"delete pods everywhere": {"crdbridge/podops/deletion.go", `r.client.Delete(ctx, to, seen)`},
	},
	"components/graceful-delete/rbac.yaml Role squall-system/squall-graceful-delete": certificateIn("squall-graceful-delete"),
	"components/on-init/rbac.yaml Role squall-system/squall-on-init":                 certificateIn("squall-on-init"),
	"components/on-init/rbac.yaml ClusterRole squall-on-init":                        trustOf("squall-on-init"),
	"components/readiness-gate/rbac.yaml Role squall-system/squall-readiness-gate":   certificateIn("squall-readiness-gate"),
	"components/readiness-gate/rbac.yaml ClusterRole squall-readiness-gate":          trustOf("squall-readiness-gate"),
	"components/requesters/rbac.yaml Role squall-system/squall-requesters":           certificateIn("squall-requesters"),
	"components/requesters/rbac.yaml ClusterRole squall-requesters":                  trustOf("squall-requesters"),
}

// certificateIn returns the uses for the certificate of a webhook of the bridge.
func certificateIn(secret string) map[string]use {
	return map[string]use{
		"get secrets named " + secret + " in squall-system":    {"crdbridge/certificate/certificate.go", `k.live.Get(ctx, types.NamespacedName{Namespace: k.place.Namespace, Name: k.place.Secret}`},
		"update secrets named " + secret + " in squall-system": {"crdbridge/certificate/certificate.go", `k.client.Update(ctx, secret)`},
	}
}

// trustOf returns the uses for the API server's trust in that webhook's certificate.
func trustOf(webhook string) map[string]use {
	return map[string]use{
		"get mutatingwebhookconfigurations named " + webhook + " everywhere":    {"crdbridge/certificate/certificate.go", `k.live.Get(ctx, types.NamespacedName{Name: k.place.Configuration}`},
		"update mutatingwebhookconfigurations named " + webhook + " everywhere": {"crdbridge/certificate/certificate.go", `k.client.Update(ctx, configuration)`},
	}
}

// callsOf has the names of calls that use a verb.
var callsOf = map[string]*regexp.Regexp{
	"get":              regexp.MustCompile(`Get\(|GetLogs\(|"GET"|LeaderElection`),
	"list":             regexp.MustCompile(`List\(|\.List,|\.Get\(\)\.Resource|request\.Resource|For\(|Watches\(|ListWatchFrom|Informer\(`),
	"watch":            regexp.MustCompile(`For\(|Watches\(|ListWatchFrom|Informer\(|\.Watch\(`),
	"create":           regexp.MustCompile(`Create\(|Post\(|LeaderElection`),
	"update":           regexp.MustCompile(`Update\(|Put\(|LeaderElection`),
	"patch":            regexp.MustCompile(`Patch\(|Apply\(|EnsureFinalizer\(`),
	"delete":           regexp.MustCompile(`Delete\(`),
	"deletecollection": regexp.MustCompile(`DeleteCollection\(`),
}

// programRoles returns the rights of all roles that are bound to worker or bridge, by the
// file and the role, with the program of each.
func programRoles(t *testing.T) (rights map[string][]string, programs map[string]string) {
	t.Helper()
	rights, programs = map[string][]string{}, map[string]string{}
	var files []string
	for _, pattern := range []string{"*.yaml", "components/*/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			switch object.GetKind() {
			case "Role", "ClusterRole":
				var role rbacv1.Role
				into(t, object, &role)
				key := roleKey(file, role.Kind, role.Namespace, role.Name)
				for _, rule := range role.Rules {
					for _, right := range rightsOf(rule, role.Namespace) {
						rights[key] = append(rights[key], right.String())
					}
				}
			case "RoleBinding", "ClusterRoleBinding":
				var binding rbacv1.RoleBinding
				into(t, object, &binding)
				for _, subject := range binding.Subjects {
					if subject.Kind == rbacv1.ServiceAccountKind {
						programs[roleKey(file, binding.RoleRef.Kind, binding.Namespace, binding.RoleRef.Name)] = strings.TrimPrefix(subject.Name, "squall-")
					}
				}
			}
		}
	}
	for key := range rights {
		if programs[key] == "" {
			delete(rights, key) // a role for users
		}
	}
	return rights, programs
}

func roleKey(file, kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%s %s %s", file, kind, name)
}

// The programs have no unused right: each is named here with the call for which it is
// given. test/rights, and the tests on a cluster, show that no right is missing.
func TestEveryRightIsUsed(t *testing.T) {
	granted, programs := programRoles(t)
	linked := map[string]string{}
	for _, program := range []string{"worker", "crdbridge"} {
		list := exec.Command("go", "list", "-deps", "../"+program)
		list.Env = append(os.Environ(), "GOOS=linux") // the programs' system, whatever this one is
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		linked[program] = string(out)
	}
	linked["probes"] = linked["worker"] // the same program, with its setting task-queues
	for role, rights := range granted {
		seen := map[string]bool{}
		for _, right := range rights {
			if seen[right] {
				t.Errorf("%s gives twice: %s", role, right)
			}
			seen[right] = true
			if use, named := uses[role][right]; !named {
				t.Errorf("%s: nobody says what for: %s", role, right)
			} else if wrong := use.wrong(right, linked[programs[role]]); wrong != "" {
				t.Errorf("%s: %s: %s", role, right, wrong)
			}
		}
	}
	for role, rights := range uses {
		for right := range rights {
			if !slices.Contains(granted[role], right) {
				t.Errorf("%s is used and does not give: %s", role, right)
			}
		}
	}
}

// wrong returns why the call is no use of the right; empty if it is one.
func (u use) wrong(right, linked string) string {
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(u.file)))
	verb, rest, _ := strings.Cut(right, " ")
	resource, _, _ := strings.Cut(rest, " ")
	_, subresource, _ := strings.Cut(resource, "/")
	switch {
	case err != nil:
		return err.Error()
	case !strings.Contains(linked, "github.com/squall-chaos/squall/"+filepath.ToSlash(filepath.Dir(u.file))+"\n"):
		return u.file + " is not part of the program"
	case !strings.Contains(string(text), u.call):
		return fmt.Sprintf("%s has no call %s any more", u.file, u.call)
	case callsOf[verb] == nil || !callsOf[verb].MatchString(u.call):
		return fmt.Sprintf("%s is no %s", u.call, verb)
	case subresource == "status" && !strings.Contains(strings.ToLower(string(text)), "status"):
		return u.file + " writes no status"
	}
	return ""
}

// A program with a right everywhere does not need it in one place too.
func TestNoRightIsGivenTwice(t *testing.T) {
	granted, programs := programRoles(t)
	for role, rights := range granted {
		for _, right := range rights {
			everywhere := regexp.MustCompile(` in \S+$`).ReplaceAllString(right, " everywhere")
			for other, theirs := range granted {
				base := strings.HasPrefix(other, "rbac.yaml ") && programs[other] == programs[role]
				if other != role && base && slices.Contains(theirs, everywhere) {
					t.Errorf("%s: %s, which %s gives already", role, right, other)
				}
			}
		}
	}
}
