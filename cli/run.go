package main

import (
	"context"
	"fmt"
	"time"

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
	var how running
	var chaosNamespace string
	run := &cobra.Command{
		Use:   "run FILE | -",
		Short: "Run a disruption or scenario and follow it until it is cleaned up",
		Long: "Create the Disruption or DisruptionScenario of a file and follow it until it has\n" +
			"ended and is cleaned up. If a step waits for an approval, the command shows how\n" +
			"to approve it.\n\n" +
			"On a terminal, Ctrl-C asks whether to stop. Elsewhere, one SIGINT or SIGTERM\n" +
			"ends the disruption and waits for the clean-up; a second one stops waiting.\n" +
			"After --timeout, the command stops waiting with exit code 1 and the disruption\n" +
			"goes on.\n\n" +
			"--report writes a report however the command ends, also if the disruption was\n" +
			"refused or goes on.\n\n" +
			"Exit codes:\n\n" +
			"  0  passed, or ended without probes\n" +
			"  1  error or rejected\n" +
			"  3  Failed\n" +
			"  4  Aborted by a probe, a person or an emergency stop\n" +
			"  5  Inconclusive, also if not every target was injected\n" +
			"  6  stuck",
		Example: "  squall run lossy.yaml\n  squall run lossy.yaml --detach && squall status lossy\n" +
			"  squall run lossy.yaml --replace --timeout 30m --report junit=chaos.xml\n  squall run game-day.yaml",
	}
	takesFiles(run, 1, func(cmd *cobra.Command, files []string) error {
		switch {
		case how.detach && !how.replace && how.timeout > 0:
			return usage("--timeout limits the waiting, and --detach does not wait: leave one out")
		case how.detach && len(how.reports.named) > 0:
			return usage("--report describes the end, and --detach does not wait for it: leave one out")
		}
		if err := how.reports.open(); err != nil {
			return err
		}
		how.reports.began, how.reports.manifest = c.now(), shownName(files[0])
		err := c.runFile(cmd, &flags, files, chaosNamespace, &how)
		return c.writeReports(cmd.Context(), &how.reports, err)
	})
	flags.add(run)
	chaosNamespaceFlag(run, &chaosNamespace)
	run.Flags().BoolVar(&how.detach, "detach", false, "create it and do not wait")
	run.Flags().BoolVar(&how.replace, "replace", false, "delete an ended one of the same name first")
	how.reports.flag(run)
	run.Flags().DurationVar(&how.timeout, "timeout", 0, "how long to wait at most, such as 30m; 0 is for ever")
	return run
}

// running is how squall run creates an object and waits for it.
type running struct {
	detach, replace bool
	timeout         time.Duration
	reports         reports
}

// begin starts the time of --timeout: as a context, and as a channel for a wait that
// outlives the context. The channel is nil if there is no limit.
func (r *running) begin(ctx context.Context) (context.Context, <-chan time.Time, context.CancelFunc) {
	if r.timeout <= 0 {
		return ctx, nil, func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	return ctx, time.After(r.timeout), cancel
}

// runFile runs the object of a file.
func (c *command) runFile(cmd *cobra.Command, flags *clusterFlags, files []string, chaosNamespace string, how *running) error {
	client, err := flags.connect(c)
	if err != nil {
		return err
	}
	d, s, err := c.one(files, client.Namespace, chaosNamespace, cmd.Flags().Changed("namespace"))
	if err != nil {
		return err
	}
	how.reports.of = manifestOf{d, s}
	ctx, deadline, cancel := how.begin(cmd.Context())
	defer cancel()
	if s != nil {
		return c.runScenario(ctx, client, s, how, deadline)
	}
	return c.runDisruption(ctx, client, d, how, deadline)
}

func (c *command) runDisruption(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption, how *running, deadline <-chan time.Time) error {
	if how.replace {
		if err := c.replace(ctx, client, d); err != nil {
			return err
		}
	}
	created, err := client.Create(ctx, d, false)
	if err != nil {
		return createError(err, d)
	}
	if how.detach {
		_, _ = fmt.Fprintf(c.out, "disruption %s/%s is created\n", created.Namespace, created.Name)
		return nil
	}
	subject := &attended{command: c, client: client, watching: watching{last: created}}
	how.reports.of, how.reports.created = subject, true
	return c.attend(ctx, subject, deadline)
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
		return nil, nil, notOne(files[0], documents, len(found))
	}
	if given && found[0].Namespace != namespace {
		return nil, nil, usage("%s has namespace %s, and -n has %s: leave one out", files[0], found[0].Namespace, namespace)
	}
	return d, s, nil
}

// notOne is the error of a file that holds no disruption or scenario, or several.
func notOne(file string, documents []manifest.Document, found int) error {
	if found > 1 {
		return fmt.Errorf("%s holds %d disruptions and scenarios: pass a file with one", shownName(file), found)
	}
	for _, d := range documents {
		if !d.Foreign {
			return fmt.Errorf("%s holds %s, and no Disruption or DisruptionScenario: create it by kubectl apply -f %s", shownName(file), d, file)
		}
	}
	if len(documents) > 0 {
		return fmt.Errorf("%s holds %s, and no Disruption or DisruptionScenario", shownName(file), documents[0])
	}
	return fmt.Errorf("%s holds no Disruption or DisruptionScenario", shownName(file))
}

func createError(err error, d *v1beta1.Disruption) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("disruption %s/%s exists already. See it: squall -n %[1]s status %[2]s. End it: squall -n %[1]s stop %[2]s. Replace it once it has ended: squall run --replace", d.Namespace, d.Name)
	}
	return fmt.Errorf("create disruption %s/%s: %w", d.Namespace, d.Name, err)
}

// codes are the exit codes of outcomes.
var codes = map[view.Outcome]int{
	view.Passed: exitOK, view.Failed: exitFailed, view.Aborted: exitAborted,
	view.Inconclusive: exitInconclusive, view.IsStuck: exitStuck, view.Rejected: exitError,
}
