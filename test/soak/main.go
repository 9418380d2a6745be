// Command soak lets disruptions come and go on a development cluster while all
// programs that carry them out are killed at random: worker, bridge, Temporal,
// kube-apiserver, kubelets, containerd and the injectors themselves, and while
// nodes crash, freeze and are cut off the network. Then it lets everything heal,
// and counts: every disruption must have ended by its workflow, and nothing may be
// left, in the API or on a node. Its exit code is 1 if a line is missed.
//
//	soak [FLAGS]    see soak --help, and docs/guarantees.md
//
// First only injectors are killed, which shows how soon a node heals; then comes
// the storm. Every choice follows from the seed. Which programs run at a given
// moment does not.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/test/sample"
)

// options are the command line.
type options struct {
	dev, devcluster, probe string
	disruptions, parallel  int
	alone                  int // percent
	bound, heal, every     time.Duration
	seed                   uint64
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends it at once
	}()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.StringVar(&o.dev, "dev", ".dev", "`directory` of the development cluster")
	flags.StringVar(&o.devcluster, "devcluster", "bin/devcluster", "its `program`, which kills")
	flags.StringVar(&o.probe, "probe", "bin/probe", "`program` that looks at the targets")
	flags.IntVar(&o.disruptions, "disruptions", 1000, "`number` of disruptions to begin")
	flags.IntVar(&o.parallel, "parallel", 12, "`number` of disruptions at a time")
	flags.IntVar(&o.alone, "alone", 30, "`percent` of them during which only injectors are killed")
	flags.DurationVar(&o.bound, "bound", 30*time.Minute, "`time` in which all must have begun; at most half of it is for killing injectors alone")
	flags.DurationVar(&o.heal, "heal", 18*time.Minute, "`time` to heal after the last kill; three cleaners may take 1m each, and as long again 10m after a disruption is stuck")
	flags.DurationVar(&o.every, "every", 3*time.Second, "mean `time` between two kills")
	flags.Uint64Var(&o.seed, "seed", 1+rand.Uint64N(1_000_000), "`number` that all choices follow from; without, a random one; 0: that of the commit")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	seed, _, err := sample.Find(o.seed)
	if err != nil {
		return o, err
	}
	o.seed = uint64(seed)
	if flags.NArg() > 0 || o.disruptions < 1 || o.parallel < 1 || o.every <= 0 || o.alone < 0 || o.alone > 100 {
		return o, fmt.Errorf("want no arguments, at least one disruption, also at a time, time between kills, and 0 to 100 percent; see soak --help")
	}
	return o, nil
}

// run soaks and judges.
func run(ctx context.Context, o options) error {
	show := newScreen(os.Stdout)
	show.logf("seed %d: %d disruptions, %d at a time, a kill every %s on average", o.seed, o.disruptions, o.parallel, o.every)
	c, err := findCluster(ctx, o)
	if err != nil {
		return err
	}
	s := &soak{cluster: c, screen: show, view: newView()}
	if err := s.tidy(ctx); err != nil {
		return err
	}
	remove, err := c.allow(ctx)
	if err != nil {
		return fmt.Errorf("install components: %w", err)
	}
	defer func() {
		if err := remove(context.WithoutCancel(ctx)); err != nil {
			show.logf("components are still installed: %v", err)
		}
	}()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	s.soak(ctx)
	return s.judge(context.WithoutCancel(ctx))
}
