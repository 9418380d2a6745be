// Package doctor is squall doctor: it checks an installation of Squall, and suggests a fix for
// each problem. It only reads.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/manifest"
	"github.com/squall-chaos/squall/cli/view"
	"github.com/squall-chaos/squall/deploy"
	"github.com/squall-chaos/squall/kube"
)

// reinstall is the fix for an installation that lacks a part.
const reinstall = "install Squall again: helm upgrade, or kubectl apply of its manifests"

// Health is the outcome of a check.
type Health string

// The healths. Warn means that it works and may stop, or could not be checked. Fail means
// that disruptions are not carried out.
const (
	OK   Health = "ok"
	Warn Health = "warn"
	Fail Health = "fail"
)

// Finding is the outcome of one check.
type Finding struct {
	What   string `json:"what"`
	Health Health `json:"health"`
	Text   string `json:"text"`
	// WayOut is the suggested fix; empty for OK.
	WayOut string `json:"wayOut,omitempty"`
}

// Place has the namespaces of an installation.
type Place struct{ System, Chaos string }

// Cluster checks the cluster. Without an answer of the API server that is the only finding.
func Cluster(ctx context.Context, c *cluster.Client, place Place) []Finding {
	version, err := c.Kube.Discovery().ServerVersion()
	if err != nil {
		return []Finding{{"cluster", Fail, err.Error(), "choose the cluster by --context or --kubeconfig; see with kubectl version"}}
	}
	findings := []Finding{{"cluster", OK, fmt.Sprintf("%s, Kubernetes %s", c.Config.Host, version.GitVersion), ""}}
	resources := examineResources(c)
	findings = append(findings, resources)
	if resources.Health == Fail {
		return findings
	}
	findings = append(findings, examineRights(ctx, c))
	findings = append(findings, examineAdmission(ctx, c), examineOptIn(ctx, c), examineSafeMode(ctx, c), examineRequesters(ctx, c))
	for _, program := range []string{"squall-worker", probes, "squall-crdbridge"} {
		findings = append(findings, examineProgram(ctx, c, place.System, program), examineAccount(ctx, c, place, program))
	}
	findings = append(findings, examineBundled(ctx, c, place.System)...)
	return append(findings, examineDisruptions(ctx, c)...)
}

// examineResources checks whether the cluster knows the API, and all its fields.
func examineResources(c *cluster.Client) Finding {
	const what, way = "resources", reinstall
	list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(v1beta1.GroupVersion.String())
	if err != nil {
		return Finding{what, Fail, fmt.Sprintf("the cluster does not know %s: %v", v1beta1.GroupVersion, err), way}
	}
	for _, name := range []string{"disruptions", "disruptioncrons", "disruptionrollouts", "disruptionscenarios", "disruptionpolicies", "emergencystops"} {
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == name }) {
			return Finding{what, Fail, fmt.Sprintf("the cluster does not know %s.%s", name, v1beta1.GroupVersion.Group), way}
		}
	}
	missing, err := missingFields(c)
	switch {
	case err != nil:
		return Finding{what, Warn, "whether they have all fields could not be found out: " + err.Error(), "see kubectl explain disruption.spec"}
	case len(missing) > 0:
		return Finding{what, Warn, "they are older than this program: Disruptions have no " + strings.Join(missing, ", "), way + ", of the version of this program, or use an older one"}
	}
	return Finding{what, OK, v1beta1.GroupVersion.String() + ", with all fields that this program knows", ""}
}

// missingFields are those of the spec that the cluster's CRD does not have.
func missingFields(c *cluster.Client) ([]string, error) {
	paths, err := c.Kube.Discovery().OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	path, found := paths["apis/"+v1beta1.GroupVersion.String()]
	if !found {
		return nil, fmt.Errorf("the cluster publishes no schema of %s", v1beta1.GroupVersion)
	}
	text, err := path.Schema("application/json")
	if err != nil {
		return nil, err
	}
	return fieldsMissingIn(text)
}

func fieldsMissingIn(openapi []byte) ([]string, error) {
	type schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var document struct {
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(openapi, &document); err != nil {
		return nil, fmt.Errorf("read the schema: %w", err)
	}
	for name, of := range document.Components.Schemas {
		var spec schema
		if !strings.HasSuffix(name, ".Disruption") || json.Unmarshal(of.Properties["spec"], &spec) != nil {
			continue
		}
		var missing []string
		for _, field := range manifest.SpecFields() {
			if _, known := spec.Properties[field]; !known {
				missing = append(missing, "spec."+field)
			}
		}
		return missing, nil
	}
	return nil, fmt.Errorf("it has no Disruption")
}

func examineRights(ctx context.Context, c *cluster.Client) Finding {
	missing, err := c.Missing(ctx, cluster.RightsToRun(c.Namespace)...)
	switch {
	case err != nil:
		return Finding{"your rights", Warn, err.Error(), "see kubectl auth can-i --list"}
	case len(missing) > 0:
		return Finding{"your rights", Warn, "you may not " + strings.Join(missing, ", "), "ask an administrator for the ClusterRole squall-disruptions"}
	}
	return Finding{"your rights", OK, "you may run and stop disruptions in namespace " + c.Namespace, ""}
}

// examineAdmission looks for the policy without which an emergency stop refuses nothing.
func examineAdmission(ctx context.Context, c *cluster.Client) Finding {
	const name, way = "squall-emergency-stop", reinstall
	_, err := c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Finding{"admission", Fail, "there is no ValidatingAdmissionPolicyBinding " + name + ": the API server takes disruptions during an emergency stop", way}
	case err != nil:
		return Finding{"admission", Warn, "could not be checked: " + err.Error(), "ask a user who may read ValidatingAdmissionPolicyBindings"}
	}
	return Finding{"admission", OK, "policies are in force", ""}
}

// examineOptIn reports how disruptions in namespaces without the opt-in label are handled.
func examineOptIn(ctx context.Context, c *cluster.Client) Finding {
	label := v1beta1.LabelDisruptions + "=" + v1beta1.DisruptionsAllowed
	return examineSwitch(ctx, c, policySwitch{
		name: "squall-namespace-opt-in", what: "opt-in",
		enforce: "disruptions in namespaces without the label " + label + " are refused",
		warn:    "users who disrupt a namespace without the label " + label + " get a warning",
		off:     "namespaces are not checked for the label " + label,
	})
}

// examineSafeMode reports how disruptions that safe mode catches are handled.
func examineSafeMode(ctx context.Context, c *cluster.Client) Finding {
	return examineSwitch(ctx, c, policySwitch{
		name: "squall-safe-mode", what: "safe mode",
		enforce: "disruptions with a large blast radius are refused",
		warn:    "users get a warning if a disruption has a large blast radius",
		off:     "the blast radius of disruptions is not checked",
	})
}

// examineRequesters finds rules about requesters while the webhook that records them is
// missing.
func examineRequesters(ctx context.Context, c *cluster.Client) Finding {
	_, err := c.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations().Get(ctx, "squall-requesters", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return Finding{requesters, Warn, "could not be checked: " + err.Error(), "ask a user who may read MutatingWebhookConfigurations"}
	}
	policies, _, unread := c.DisruptionPolicies(ctx)
	if unread != nil {
		return Finding{requesters, Warn, unread.Error(), "ask a user who may list DisruptionPolicies"}
	}
	return judgeRequesters(err == nil, policies)
}

const requesters = "requesters"

func judgeRequesters(noted bool, policies []*v1beta1.DisruptionPolicy) Finding {
	if noted {
		return Finding{requesters, OK, "it is noted who asks for disruptions", ""}
	}
	var about []string
	for _, p := range policies {
		for _, rule := range p.Spec.Rules {
			if rule.Requesters != nil || rule.ExceptRequesters != nil {
				about = append(about, p.Name+"/"+rule.Name)
			}
		}
	}
	if len(about) > 0 {
		return Finding{requesters, Warn, "requesters are not recorded, so these policy rules deny every user: " + strings.Join(about, ", "),
			"install the component requesters: docs/requesters.md"}
	}
	return Finding{requesters, OK, "it is not noted who asks for disruptions, and no policy depends on that", ""}
}

// policySwitch is a policy that an operator sets to off, warn or enforce, and what each means.
type policySwitch struct{ name, what, enforce, warn, off string }

// examineSwitch reads the switch from the policy's binding. An installation without the
// policy is an older one.
func examineSwitch(ctx context.Context, c *cluster.Client, s policySwitch) Finding {
	binding, err := c.Kube.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Get(ctx, s.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return Finding{s.what, OK, "off: there is no ValidatingAdmissionPolicyBinding " + s.name, ""}
	case err != nil:
		return Finding{s.what, Warn, "could not be checked: " + err.Error(), "ask a user who may read ValidatingAdmissionPolicyBindings"}
	case slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Deny):
		return Finding{s.what, OK, "enforce: " + s.enforce, ""}
	case slices.Contains(binding.Spec.ValidationActions, admissionregistrationv1.Warn):
		return Finding{s.what, OK, "warn: " + s.warn, ""}
	}
	return Finding{s.what, OK, "off: " + s.off, ""}
}

// probes is the program that only disruptions with a steady state need.
const probes = "squall-probes"

// examineProgram checks whether a deployment has as many ready pods as it wants.
func examineProgram(ctx context.Context, c *cluster.Client, namespace, name string) Finding {
	deployment, err := c.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && name == probes:
		return Finding{name, Fail, fmt.Sprintf("there is no deployment %s in namespace %s: disruptions with a steady state inject nothing", name, namespace), reinstall}
	case apierrors.IsNotFound(err):
		return Finding{name, Fail, fmt.Sprintf("there is no deployment %s in namespace %s", name, namespace), "install Squall, or name its namespace by --system-namespace"}
	case err != nil:
		return Finding{name, Warn, "could not be checked: " + err.Error(), "ask a user who may read deployments in namespace " + namespace}
	}
	return programFinding(deployment, podTrouble(ctx, c, deployment))
}

func programFinding(d *appsv1.Deployment, trouble string) Finding {
	wanted := int32(1)
	if d.Spec.Replicas != nil {
		wanted = *d.Spec.Replicas
	}
	text := fmt.Sprintf("%d of %d ready", d.Status.ReadyReplicas, wanted)
	for _, container := range d.Spec.Template.Spec.Containers {
		text += ", image " + container.Image
	}
	if trouble != "" {
		text += "; " + trouble
	}
	way := fmt.Sprintf("kubectl -n %s logs deployment/%s --all-pods; kubectl -n %[1]s describe pods -l app.kubernetes.io/name=%[2]s", d.Namespace, d.Name)
	switch {
	case d.Status.ReadyReplicas == 0:
		return Finding{d.Name, Fail, text, way}
	case d.Status.ReadyReplicas < wanted:
		return Finding{d.Name, Warn, text, way}
	}
	return Finding{d.Name, OK, text, ""}
}

// podTrouble is why a pod of a deployment is not ready; empty if no container shows a
// reason.
func podTrouble(ctx context.Context, c *cluster.Client, d *appsv1.Deployment) string {
	found := ""
	_ = kube.Pages(ctx, c.Kube.CoreV1().Pods(d.Namespace).List, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)}, func(page *corev1.PodList) {
		for _, pod := range page.Items {
			for _, status := range pod.Status.ContainerStatuses {
				if trouble := containerTrouble(status); trouble != "" && found == "" {
					found = "pod " + pod.Name + ": " + trouble
				}
			}
		}
	})
	return found
}

func containerTrouble(s corev1.ContainerStatus) string {
	switch {
	case s.Ready:
		return ""
	case s.LastTerminationState.Terminated != nil && s.State.Waiting != nil:
		return fmt.Sprintf("%s, exit code %d: %s", s.State.Waiting.Reason, s.LastTerminationState.Terminated.ExitCode, s.LastTerminationState.Terminated.Message)
	case s.State.Waiting != nil:
		return strings.TrimSuffix(s.State.Waiting.Reason+": "+s.State.Waiting.Message, ": ")
	}
	return ""
}

// examineAccount checks whether a program has the rights that the manifests give it.
func examineAccount(ctx context.Context, c *cluster.Client, place Place, program string) Finding {
	what := "rights of " + program
	given, err := deploy.Rights(program)
	if err != nil {
		return Finding{what, Warn, err.Error(), "report it: this program is built in a wrong way"}
	}
	var rights []cluster.Right
	for _, r := range given {
		namespace := map[string]string{"squall-system": place.System, "squall-chaos": place.Chaos}[r.Namespace]
		rights = append(rights, cluster.Right{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Name: r.Name, Namespace: namespace})
	}
	account := fmt.Sprintf("system:serviceaccount:%s:%s", place.System, program)
	missing, err := c.MissingOfProgram(ctx, program, place.System, rights...)
	switch {
	case apierrors.IsForbidden(err):
		return Finding{what, Warn, "you may not check the rights of others", "ask a user who may create SubjectAccessReviews"}
	case err != nil:
		return Finding{what, Warn, err.Error(), "see kubectl auth can-i --list --as=" + account}
	case len(missing) > 0:
		return Finding{what, Fail, account + " may not " + strings.Join(missing, ", "), reinstall}
	}
	return Finding{what, OK, fmt.Sprintf("all %d that it needs", len(rights)), ""}
}

// examineDisruptions finds stops that keep disruptions from running, and disruptions that
// wait for a person.
func examineDisruptions(ctx context.Context, c *cluster.Client) []Finding {
	var findings []Finding
	stops, err := c.EmergencyStops(ctx)
	switch {
	case err != nil:
		findings = append(findings, Finding{"emergency stop", Warn, err.Error(), "ask a user who may list EmergencyStops"})
	case len(stops.Items) > 0:
		findings = append(findings, Finding{"emergency stop", Warn, v1beta1.FirstStop(stops.Items).Ending() + " is in force: nothing new begins", "squall estop off, once it is safe"})
	default:
		findings = append(findings, Finding{"emergency stop", OK, "none is in force", ""})
	}
	list, err := c.Disruptions(ctx, "")
	if err != nil {
		return append(findings, Finding{"disruptions", Warn, err.Error(), "ask a user who may list Disruptions of all namespaces"})
	}
	return append(findings, judgeDisruptions(list.Items))
}

func judgeDisruptions(all []v1beta1.Disruption) Finding {
	var stuck, waiting []string
	running := 0
	for i := range all {
		d := &all[i]
		name := d.Namespace + "/" + d.Name
		switch {
		case view.Stuck(d):
			stuck = append(stuck, name)
		case view.Unorchestrated(d) != "":
			waiting = append(waiting, name+" ("+view.Unorchestrated(d)+")")
		case !d.Status.Phase.Over():
			running++
		}
	}
	switch {
	case len(stuck) > 0:
		return Finding{"disruptions", Warn, fmt.Sprintf("%d are stuck: %s", len(stuck), strings.Join(stuck, ", ")), "see squall status NAME"}
	case len(waiting) > 0:
		return Finding{"disruptions", Warn, fmt.Sprintf("%d are not carried out: %s", len(waiting), strings.Join(waiting, ", ")), "fix the findings on Temporal and the worker"}
	}
	return Finding{"disruptions", OK, fmt.Sprintf("%d run, none is stuck", running), ""}
}
