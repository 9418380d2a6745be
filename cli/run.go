package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/manifest"
	"github.com/squall-chaos/squall/cli/view"
)

func (c *command) run() *cobra.Command {
	var flags clusterFlags
	var detach bool
	var chaosNamespace string
	run := &cobra.Command{
		Use:   "run FILE | -",
		Short: "Create a disruption and watch it until its end",
		Long: "Creates the Disruption of a file and shows how far it is, until it has ended and nothing of it is left.\n\n" +
			"On a terminal Ctrl-C asks what is to be done. Elsewhere one SIGINT or SIGTERM stops the disruption and waits until it\n" +
			"is taken off; a second one ends the waiting.\n\n" +
			"Exit codes: 0 it passed, or ended well without probes; 1 error or rejected; 3 Failed; 4 Aborted, by a probe, a person\n" +
			"or an emergency stop; 5 Inconclusive, also when not every target was injected; 6 stuck.",
		Example: "  squall run lossy.yaml\n  squall run lossy.yaml --detach && squall status lossy",
	}
	takesFiles(run, 1, func(cmd *cobra.Command, files []string) error {
		client, err := flags.connect(c)
		if err != nil {
			return err
		}
		d, err := c.only(files, client.Namespace, chaosNamespace, cmd.Flags().Changed("namespace"))
		if err != nil {
			return err
		}
		created, err := client.Create(cmd.Context(), d, false)
		if err != nil {
			return createError(err, d)
		}
		if detach {
			_, _ = fmt.Fprintf(c.out, "disruption %s/%s is created\n", created.Namespace, created.Name)
			return nil
		}
		return c.attend(cmd.Context(), client, created)
	})
	flags.add(run)
	chaosNamespaceFlag(run, &chaosNamespace)
	run.Flags().BoolVar(&detach, "detach", false, "create it and do not wait")
	return run
}

// only is the one disruption of the files, valid and with its namespace.
func (c *command) only(files []string, namespace, chaosNamespace string, given bool) (*v1beta1.Disruption, error) {
	d, s, err := c.one(files, namespace, chaosNamespace, given)
	if s != nil {
		return nil, fmt.Errorf("%s holds a scenario: create it by kubectl apply -f %[1]s, and follow it by squall -n %s status %s%s", files[0], s.Namespace, scenarioPrefix, s.Name)
	}
	return d, err
}

// one is the one disruption or the one scenario of the files, valid and with its namespace.
func (c *command) one(files []string, namespace, chaosNamespace string, given bool) (d *v1beta1.Disruption, s *v1beta1.DisruptionScenario, err error) {
	documents, err := c.read(files)
	if err != nil {
		return nil, nil, err
	}
	var found []*metav1.ObjectMeta
	for _, document := range documents {
		switch {
		case document.Disruption != nil:
			d = document.Disruption
			found = append(found, &d.ObjectMeta)
		case document.DisruptionScenario != nil:
			s = document.DisruptionScenario
			found = append(found, &s.ObjectMeta)
		}
	}
	for _, meta := range found {
		if meta.Namespace == "" {
			meta.Namespace = namespace
		}
	}
	manifest.Check(documents, manifest.Rules{Now: c.now(), ChaosNamespace: chaosNamespace})
	if err := c.refuseInvalid(documents); err != nil {
		return nil, nil, err
	}
	if len(found) != 1 {
		return nil, nil, fmt.Errorf("%s holds %d disruptions: name a file with one", files[0], len(found))
	}
	if given && found[0].Namespace != namespace {
		return nil, nil, usage("%s says namespace %s, and -n says %s: leave one out", files[0], found[0].Namespace, namespace)
	}
	return d, s, nil
}

func createError(err error, d *v1beta1.Disruption) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a disruption %s/%s already: squall -n %[1]s status %[2]s says how it is, squall -n %[1]s stop %[2]s ends it and lets you create it again", d.Namespace, d.Name)
	}
	return fmt.Errorf("create disruption %s/%s: %w", d.Namespace, d.Name, err)
}

// codes are the exit codes of outcomes.
var codes = map[view.Outcome]int{
	view.Passed: exitOK, view.Failed: exitFailed, view.Aborted: exitAborted,
	view.Inconclusive: exitInconclusive, view.IsStuck: exitStuck, view.Rejected: exitError,
}

// conclude says what has become of a disruption, and returns its exit code.
func (c *command) conclude(d *v1beta1.Disruption) error {
	result := view.ResultOf(d)
	if result.Outcome != view.Passed {
		c.describe(d, false)
	}
	_, _ = fmt.Fprintf(c.out, "%s: %s/%s: %s\n", c.tone(result.Tone, string(result.Outcome)), d.Namespace, d.Name, result.Why)
	if d.Status.CleanedVerified != nil && !*d.Status.CleanedVerified {
		_, _ = fmt.Fprintf(c.out, "%s: something may be left on a node: squall -n %s status %s\n", c.paint(yellow, "warning"), d.Namespace, d.Name)
	}
	return silently(codes[result.Outcome])
}

// watch tells of a disruption until it is over, stuck or gone, which is nil.
func (c *command) watch(ctx context.Context, client *cluster.Client, ref v1beta1.DisruptionRef, seen chan<- *v1beta1.Disruption, notes chan<- string) error {
	return client.FollowDisruption(ctx, ref, cluster.Watcher[v1beta1.Disruption]{
		Seen: func(d *v1beta1.Disruption) bool {
			select {
			case seen <- d:
				return d == nil
			case <-ctx.Done():
				return true
			}
		},
		Away: func(err error) {
			select {
			case notes <- client.Unreachable(err).Error():
			case <-ctx.Done():
			}
		},
	})
}
