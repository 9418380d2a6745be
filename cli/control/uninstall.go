package control

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/contract"
)

// uninstallStop is the emergency stop that refuses new disruptions meanwhile.
const uninstallStop = "uninstall"

// Uninstall is squall uninstall.
func Uninstall(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var chaosNamespace string
	var yes bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare the cluster for uninstalling Squall",
		Long: "Create an EmergencyStop, and delete all DisruptionCrons, DisruptionRollouts,\n" +
			"DisruptionScenarios and Disruptions of the cluster, also those that have ended.\n" +
			"Wait until they, their chaos pods and their records are gone.\n\n" +
			"Programs, types and roles stay: the last lines show the commands that remove\n" +
			"them. Without --yes the command only counts. The exit code is 6 if only stuck\n" +
			"disruptions are left: then a person must decide.",
		Example: "  squall uninstall --yes && helm uninstall squall -n squall-system",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			if !yes {
				left, err := c.leftOf(cmd.Context(), client, chaosNamespace, false)
				if err != nil {
					return err
				}
				return fmt.Errorf("%s: squall uninstall --yes ends and deletes them, and nothing new begins then", left)
			}
			ctx, cancel := bounded(cmd.Context(), timeout)
			defer cancel()
			return c.emptied(ctx, client, chaosNamespace)
		},
	}
	flags.Add(command)
	console.ChaosNamespaceFlag(command, &chaosNamespace)
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do it")
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 5m; 0 is for ever")
	return command
}

// remains are the objects that an uninstalled Squall must not leave behind.
type remains struct {
	repeated, disruptions, chaosPods, records int
	// stuck are disruptions that wait for a person.
	stuck []v1beta1.Disruption
}

func (r remains) String() string {
	return fmt.Sprintf("%d DisruptionCrons, DisruptionRollouts and DisruptionScenarios, %d disruptions, %d chaos pods and %d records are left", r.repeated, r.disruptions, r.chaosPods, r.records)
}

// emptied stops everything, and returns once only stuck disruptions are left, or nothing.
func (c call) emptied(ctx context.Context, client *cluster.Client, chaosNamespace string) error {
	err := client.CreateEmergencyStop(ctx, &v1beta1.EmergencyStop{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1beta1.GroupVersion.String(), Kind: "EmergencyStop"},
		ObjectMeta: metav1.ObjectMeta{Name: uninstallStop}, Spec: v1beta1.EmergencyStopSpec{Reason: "Squall is being uninstalled"},
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	p := c.Progress()
	defer p.End()
	for {
		left, err := c.leftOf(ctx, client, chaosNamespace, true)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("emergency stop %s is in force, and not all is clean yet; run the command again. For stuck disruptions see squall list -A --stuck", uninstallStop)
		case err != nil:
			return err
		case left.repeated+left.disruptions+left.chaosPods+left.records == 0:
			p.End()
			_, _ = fmt.Fprintf(c.Out, "%s. Now delete Squall as you installed it, and its schedule in Temporal:\n"+
				"  helm uninstall squall -n squall-system      or  kubectl delete -f squall.yaml\n"+
				"  kubectl delete crd -l app.kubernetes.io/part-of=squall     # Helm keeps them\n"+
				"  temporal schedule delete --schedule-id %s\n", c.Paint(console.Green, "nothing is left to be cleaned"), contract.SweepSchedule)
			return nil
		case left.disruptions > 0 && left.disruptions == len(left.stuck):
			p.End()
			for i := range left.stuck {
				c.Describe(&left.stuck[i], false)
			}
			return console.Silently(console.ExitStuck)
		}
		p.Show(left.String(), left.String())
		select {
		case <-ctx.Done():
		case <-time.After(console.Refresh):
		}
	}
}

// leftOf counts what is left. With end it deletes what is not being deleted yet.
func (c call) leftOf(ctx context.Context, client *cluster.Client, chaosNamespace string, end bool) (remains, error) {
	var left remains
	repeated, err := client.Repeated(ctx)
	if err != nil {
		return left, err
	}
	list, err := client.Disruptions(ctx, "")
	if err != nil {
		return left, err
	}
	left.repeated, left.disruptions = len(repeated), len(list.Items)
	for _, r := range repeated {
		if end && r.GetDeletionTimestamp() == nil {
			if err := client.DeleteRepeated(ctx, r); err != nil && !apierrors.IsNotFound(err) {
				return left, err
			}
		}
	}
	for i := range list.Items {
		d := &list.Items[i]
		if view.Stuck(d) {
			left.stuck = append(left.stuck, *d)
		}
		if !end || d.DeletionTimestamp != nil {
			continue
		}
		if err := client.Delete(ctx, d.Ref()); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return left, err
		}
	}
	ours := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionUID}
	err = kube.Pages(ctx, client.Kube.CoreV1().Pods(chaosNamespace).List, ours, func(page *corev1.PodList) { left.chaosPods += len(page.Items) })
	if err == nil {
		err = kube.Pages(ctx, client.Kube.CoreV1().ConfigMaps(chaosNamespace).List, ours, func(page *corev1.ConfigMapList) { left.records += len(page.Items) })
	}
	if err != nil {
		return left, client.Unreachable(err)
	}
	return left, nil
}
