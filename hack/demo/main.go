// Command demo shows Squall at work on a real cluster: it disturbs containers
// in three ways, measures before, while and after, ends one disruption early, lets
// a probe end another, and lets every node say that nothing is left. Its exit code
// is 1 if any figure is not what it should be.
//
//	go run ./demo            the whole story
//	go run ./demo install    only install Squall and wait until it runs
//
// Without KUBECONFIG it uses the development cluster, which it starts if it
// does not run. With KUBECONFIG it uses that cluster: SQUALL_TEMPORAL_ADDRESS
// says where its pods find Temporal; SQUALL_IMAGE, SQUALL_INJECTOR_IMAGE and
// SQUALL_TARGET_IMAGE name the images if its nodes do not have
// squall.local/squall:dev, squall.local/injector:dev and squall.local/target:dev.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	show := newScreen(os.Stdout)
	where, err := findPlace()
	if err != nil {
		return err
	}
	if err := where.prepare(ctx, show); err != nil {
		return err
	}
	if err := where.install(ctx, show); err != nil {
		return err
	}
	if len(args) > 0 && args[0] == "install" {
		return nil
	}
	s := &story{kubectl: where.kubectl, place: where, screen: show}
	if err := s.tell(ctx); err != nil {
		return err
	}
	if show.wrong > 0 {
		return fmt.Errorf("%d of %d figures are not what they should be", show.wrong, show.checked)
	}
	show.say("")
	show.good("all %d figures are as they should be", show.checked)
	return nil
}
