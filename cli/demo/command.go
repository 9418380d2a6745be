package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/control"
	"github.com/squall-chaos/squall/deploy"
)

const (
	// shopStart is how long the shop may take until it runs, with the pull of its image.
	shopStart = 3 * time.Minute
	// demoEnd is how long the clean-up of the demo may take.
	demoEnd = 3 * time.Minute
)

// call is one call of a command of this package.
type call struct{ console.Streams }

// Command is squall demo.
func Command(s console.Streams) *cobra.Command {
	c := call{s}
	var flags console.ClusterFlags
	var o demonstration
	command := &cobra.Command{
		Use:   "demo",
		Short: "See a first fault: install a small shop, disrupt it, measure, clean up",
		Long: "Install a small shop in namespace " + Namespace + ", and inject a fault that its\n" +
			"client notices. Print what the client measures before, during and after the\n" +
			"fault, then delete everything. Takes about a minute. Ctrl-C cleans up, too.",
		Example: "  squall demo\n  squall demo --keep    # leaves the shop for faults of your own",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := flags.Connect(c.Streams)
			if err != nil {
				return err
			}
			o.call, o.client = c, client
			return o.run(cmd.Context())
		},
	}
	flags.Add(command)
	console.SystemNamespaceFlag(command, &o.system)
	command.Flags().StringVar(&o.image, "image", "", "image of squall for the shop's pods (default: the one beside the worker's image)")
	command.Flags().IntVar(&o.seconds, "seconds", 10, "how long to measure before, during and after the fault")
	command.Flags().BoolVar(&o.keep, "keep", false, "leave the shop in the cluster")
	command.AddCommand(c.serve(), c.load())
	return command
}

// serve is a command of the shop's pods, as load is.
func (c call) serve() *cobra.Command {
	var address, upstream string
	command := &cobra.Command{Use: "serve", Short: "Answer HTTP requests of the demo", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Serve(c.untilInterrupted(cmd.Context()), address, upstream)
		}}
	command.Flags().StringVar(&address, "listen", ":8080", "address to listen on")
	command.Flags().StringVar(&upstream, "upstream", "", "URL to ask before each answer")
	return command
}

func (c call) load() *cobra.Command {
	var url string
	command := &cobra.Command{Use: "load", Short: "Send the requests of the demo", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Load(c.untilInterrupted(cmd.Context()), url, c.Out)
		}}
	command.Flags().StringVar(&url, "url", "http://front:8080", "URL to ask")
	return command
}

// untilInterrupted is a context that SIGINT and SIGTERM end.
func (c call) untilInterrupted(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case signal := <-c.Interrupts:
			cancel(fmt.Errorf("interrupted by %v", signal))
		}
	}()
	return ctx
}

// demonstration is one run of `squall demo`.
type demonstration struct {
	call
	client        *cluster.Client
	image, system string
	seconds       int
	keep          bool
}

func (o *demonstration) run(ctx context.Context) (err error) {
	if o.seconds < 1 {
		return console.Usage("--seconds %d: want 1 or more", o.seconds)
	}
	manifest, slow, err := deploy.Demo()
	if err != nil {
		return err
	}
	if err := o.findImage(ctx); err != nil {
		return err
	}
	shop := Shop{Kube: o.client.Kube, Manifest: manifest, Image: o.image}
	ctx = o.untilInterrupted(ctx)
	line := o.Progress()
	defer line.End()
	line.Show("installing a shop in namespace "+Namespace, "installing a shop in namespace "+Namespace+": client -> front (3 pods) -> cart")
	if err := shop.Install(ctx); err != nil {
		return err
	}
	if !o.keep {
		defer func() { err = errors.Join(err, o.delete(context.WithoutCancel(ctx), shop, line)) }()
	}
	starting, cancel := context.WithTimeout(ctx, shopStart)
	defer cancel()
	if err := shop.AwaitReady(starting); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	if err := shop.AwaitSteady(starting); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	line.End()
	return o.compare(ctx, shop, slow, line)
}

// findImage derives the image of squall from that of the worker, unless the flag has one.
func (o *demonstration) findImage(ctx context.Context) error {
	if o.image != "" {
		return nil
	}
	worker, err := o.client.WorkerImage(ctx, o.system)
	if err != nil {
		return fmt.Errorf("find Squall in the cluster: %w", err)
	}
	if o.image = CLIImage(worker); o.image == "" {
		return fmt.Errorf("cannot derive the image of squall from the worker's image %s: set --image", worker)
	}
	return nil
}

// compare measures before, during and after the fault.
func (o *demonstration) compare(ctx context.Context, shop Shop, slow []byte, line *console.Progress) error {
	_, _ = fmt.Fprintf(o.Out, "%-8s %9s %7s %9s %9s\n", "", "REQUESTS", "ERRORS", "MEDIAN", "95TH PCT")
	if err := o.measure(ctx, shop, "before", line); err != nil {
		return err
	}
	d, err := v1beta1.Decode(slow)
	if err != nil {
		return err
	}
	created, err := o.create(ctx, d, line)
	if err != nil {
		return cluster.CreateError(err, d)
	}
	ended := false
	end := func(ctx context.Context) error {
		if ended {
			return nil
		}
		ended = true
		if err := o.client.Delete(ctx, created.Ref()); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, demoEnd)
		defer cancel()
		return control.AwaitGone(ctx, o.Streams, o.client, created.Ref())
	}
	err = o.injected(ctx, created, line)
	if err == nil {
		err = o.measure(ctx, shop, "during", line)
	}
	if err = errors.Join(err, end(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	return o.measure(ctx, shop, "after", line)
}

// create creates a disruption. For up to half a minute after an installation the API server
// does not know the types of its policies and refuses.
func (o *demonstration) create(ctx context.Context, d *v1beta1.Disruption, line *console.Progress) (*v1beta1.Disruption, error) {
	for deadline := o.Now().Add(time.Minute); ; {
		created, err := o.client.Create(ctx, d, false)
		if err == nil || !strings.Contains(err.Error(), "failed to find resource referenced by paramKind") || o.Now().After(deadline) {
			line.Clear()
			return created, err
		}
		line.Show("the API server learns the new types", "the API server learns the new types")
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// injected waits until the fault acts.
func (o *demonstration) injected(ctx context.Context, d *v1beta1.Disruption, line *console.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, shopStart)
	defer cancel()
	began, acts := o.Now(), false
	err := o.client.FollowDisruption(ctx, d.Ref(), cluster.Watcher[v1beta1.Disruption]{Seen: func(now *v1beta1.Disruption) bool {
		if now == nil || now.Status.Phase.Over() {
			return true
		}
		acts = now.Status.InjectionStatus == v1beta1.Injected && meta.IsStatusConditionTrue(now.Status.Conditions, v1beta1.ConditionEffectVerified)
		line.Show("injecting", fmt.Sprintf("disruption %s/%s: %s", now.Namespace, now.Name, now.Status.InjectionStatus))
		return acts
	}})
	line.End()
	if err == nil && !acts {
		err = fmt.Errorf("the fault of disruption %s/%s does not act: kubectl -n %[1]s describe disruption %[2]s shows why", d.Namespace, d.Name)
	}
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	_, _ = fmt.Fprintf(o.Out, "fault: one of three front pods reaches the cart 300 ms later (proven after %s)\n", o.Now().Sub(began).Round(100*time.Millisecond))
	return nil
}

func (o *demonstration) measure(ctx context.Context, shop Shop, what string, line *console.Progress) error {
	line.Show("measuring "+what+" the fault", fmt.Sprintf("measuring %s the fault for %d s", what, o.seconds))
	p, err := shop.Measure(ctx, o.seconds)
	line.Clear()
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	_, _ = fmt.Fprintf(o.Out, "%-8s %9d %7d %9s %9s\n", what, p.Requests, p.Errors, inMilliseconds(p.Median), inMilliseconds(p.Slow))
	return nil
}

func inMilliseconds(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

// delete removes the shop, also after an error.
func (o *demonstration) delete(ctx context.Context, shop Shop, line *console.Progress) error {
	ctx, cancel := context.WithTimeout(ctx, demoEnd)
	defer cancel()
	line.Show("deleting the shop", "deleting the shop")
	err := shop.Delete(ctx)
	line.End()
	if err == nil {
		_, _ = fmt.Fprintln(o.Out, "the shop is deleted")
	}
	return err
}
