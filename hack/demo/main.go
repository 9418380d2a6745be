// Command demo shows Squall at work on a real cluster. It disrupts containers in
// three ways, measures before, during and after, and ends one disruption early. A
// probe ends another one. At the end every node proves that nothing is left. Its
// exit code is 1 if any figure is wrong.
//
//	go run ./demo            the whole story
//	go run ./demo install    only install Squall and wait until it runs
//
// Without KUBECONFIG it uses the development cluster, and starts that if it does
// not run. With KUBECONFIG it uses that cluster. SQUALL_TEMPORAL_ADDRESS is then
// Temporal's address as the cluster's pods reach it. SQUALL_IMAGE,
// SQUALL_INJECTOR_IMAGE and SQUALL_TARGET_IMAGE name the images if the nodes do
// not have squall.local/squall:dev, squall.local/injector:dev and
// squall.local/target:dev.
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
	if err := s.play(ctx); err != nil {
		return err
	}
	if show.wrong > 0 {
		return fmt.Errorf("%d of %d figures are not what they should be", show.wrong, show.checked)
	}
	show.logf("")
	show.good("all %d figures are as they should be", show.checked)
	return nil
}
