// Package preview is squall plan: it shows the targets that a disruption or a scenario would
// get now, and why it would be refused. It changes nothing.
package preview

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/check"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/plan"
	"github.com/squall-chaos/squall/kube"
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Command is squall plan.
func Command(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var output console.Format
	var chaosNamespace, systemNamespace string
	command := &cobra.Command{
		Use:   "plan FILE | -",
		Short: "Preview the targets of a disruption or scenario, without injecting",
		Long: "Read the cluster as the worker does. Show the candidates, how many targets would\n" +
			"be selected, on which nodes, and why other pods are left out. The command uses\n" +
			"the worker's settings if you may read them. It then sends a dry run to the API\n" +
			"server, which runs all admission. Nothing is written.\n\n" +
			"A scenario is previewed disruption by disruption, as if each were created now\n" +
			"and alone. The exit code is 1 if nothing would be disrupted.",
		Example: "  squall plan lossy.yaml\n  squall plan lossy.yaml -o json | jq .chosen",
	}
	console.TakesFiles(command, 1, func(cmd *cobra.Command, files []string) error {
		client, err := flags.Connect(c.Streams)
		if err != nil {
			return err
		}
		d, s, err := check.One(c.Streams, files, check.Place{Namespace: client.Namespace, Given: cmd.Flags().Changed("namespace"), ChaosNamespace: chaosNamespace})
		if err != nil {
			return err
		}
		known := workerSettingsOf(cmd.Context(), client, systemNamespace, chaosNamespace, console.Given(cmd, "chaos-namespace"))
		if s != nil {
			p, err := planOfScenario(cmd.Context(), client, s, known)
			if err != nil {
				return err
			}
			return c.showScenarioPlan(p, output)
		}
		p, err := planOf(cmd.Context(), client, d, known)
		if err != nil {
			return err
		}
		return c.showPlan(p, output)
	})
	flags.Add(command)
	console.ChaosNamespaceFlag(command, &chaosNamespace)
	console.SystemNamespaceFlag(command, &systemNamespace)
	output.Flag(command, "json", "yaml", "wide")
	return command
}

func planOf(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, known workerSettings) (plan.Plan, error) {
	policies, forbidden, err := client.DisruptionPolicies(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	created, refused := client.Create(ctx, d, true)
	judged := v1beta1.JudgedAnnotations(created)
	if refused != nil {
		// the webhook will record the same
		asked := metav1.ObjectMeta{Annotations: client.Requester(ctx).Annotations()}
		metav1.SetMetaDataAnnotation(&asked, v1beta1.AnnotationEnvironment, d.Annotations[v1beta1.AnnotationEnvironment])
		judged = asked.Annotations
	}
	d = d.DeepCopy()
	d.Annotations = judged
	rules := policy.Rules(policies, d, time.Now())
	p, found, err := candidatesOf(ctx, client, d, known, rules)
	if err != nil {
		return plan.Plan{}, err
	}
	if forbidden {
		p.Warnings = append(p.Warnings, "you may not list DisruptionPolicies: fewer targets may be chosen, or none")
	}
	p.Assumed = known.assumed
	switch refusal, warning := known.judge(known.tooMany(ctx, client, d, targets.Wanted(d.Spec, found.Healthy))); {
	case refusal != "":
		p.Refusals = append(p.Refusals, refusal)
	case warning != "":
		p.Warnings = append(p.Warnings, warning)
	}
	refusal := policy.Refusal(rules)
	if refusal != "" {
		p.Refusals = append(p.Refusals, refusal)
	}
	if err := foresee(ctx, client, d, known, found.Healthy, &p); err != nil {
		return p, err
	}
	missing, err := client.Missing(ctx, cluster.RightsToRun(d.Namespace)...)
	if err != nil {
		return p, err
	}
	for _, right := range missing {
		p.Refusals = append(p.Refusals, "you may not "+right+": ask an administrator for the ClusterRole squall-disruptions")
	}
	switch {
	case apierrors.IsAlreadyExists(refused):
		p.Refusals = append(p.Refusals, cluster.CreateError(refused, d).Error())
	// printed already
	case apierrors.IsForbidden(refused) && (len(missing) > 0 || refusal != "" && strings.Contains(refused.Error(), refusal)):
	case refused != nil:
		p.Refusals = append(p.Refusals, "the API server: "+refused.Error())
	}
	return p, nil
}

// candidatesOf is the plan of a disruption before any rule has judged it, with its survey.
// A user who may not list the candidates gets a plan with that reason.
func candidatesOf(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, known workerSettings, rules []policy.Rule) (plan.Plan, targets.Survey, error) {
	store := targets.NewStore(client.Kube, known.chaos, nil, 1)
	store.System, store.ControlPlane = known.system, known.controlPlane
	found, err := store.Survey(ctx, d, rules)
	switch {
	case apierrors.IsForbidden(err):
		right := cluster.Right{Verb: "list", Resource: "pods", Namespace: d.Namespace}
		if d.Spec.Level == v1beta1.LevelNode {
			right = cluster.Right{Verb: "list", Resource: "nodes"}
		}
		return plan.Blind(d, "you may not "+cluster.Describe(right)), targets.Survey{}, nil
	case err != nil:
		return plan.Plan{}, found, client.Unreachable(err)
	}
	return plan.Of(d, found), found, nil
}

// tooMany is the message of safe mode for so many targets, as far as the caller may list
// pods and nodes. Pods that have ended count here where only the API server knows the
// number.
func (s workerSettings) tooMany(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, wanted int) string {
	of := policy.Population{Cluster: math.MaxInt32, Nodes: math.MaxInt32} // unless it is known
	// the answer has the number of the rest
	one := metav1.ListOptions{Limit: 1}
	if nodes, err := client.Kube.CoreV1().Nodes().List(ctx, one); err == nil {
		of.Nodes = sizeOf(len(nodes.Items), nodes.RemainingItemCount)
	}
	if pods, err := client.Kube.CoreV1().Pods("").List(ctx, one); err == nil {
		of.Cluster = sizeOf(len(pods.Items), pods.RemainingItemCount)
	}
	err := kube.Pages(ctx, client.Kube.CoreV1().Pods(d.Namespace).List, metav1.ListOptions{FieldSelector: kube.PodsNotEnded},
		func(page *corev1.PodList) { of.Namespace += len(page.Items) })
	if err != nil {
		return "" // the plan already has that the user may not list them
	}
	return s.thresholds.TooMany(d, wanted, of)
}

func sizeOf(listed int, more *int64) int {
	if more != nil {
		listed += int(*more)
	}
	return listed
}

func (c call) showPlan(p plan.Plan, output console.Format) error {
	if output == console.JSON || output == console.YAML {
		if err := output.Write(c.Out, p); err != nil {
			return err
		}
	} else {
		_, _ = fmt.Fprintln(c.Out, c.Paint(console.Bold, p.Disruption))
		c.Lines(p.Lines(output == console.Wide))
	}
	if len(p.Refusals) > 0 {
		return console.Silently(console.ExitError)
	}
	return nil
}
