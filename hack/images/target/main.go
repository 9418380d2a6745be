// Command target is the workload that examples and tests disrupt, and the client
// that measures the effect:
//
//	target [serve]          HTTP, TCP echo and UDP echo; optionally writes to a disk
//	target ping --udp A:P   counts how many datagrams come back, as JSON
//	target get URL          fetches once, as JSON
//	target lookup NAME      the addresses of a name, as JSON
//	target open FILE        opens again and again and counts how that ends, as JSON
//	target cpu              the cores its container takes, all processes together, as JSON
//
// Without flags serve is idle until a request comes, so that it adds no load of
// its own to a measurement.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	args := os.Args[1:]
	command := "serve"
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		command, args = args[0], args[1:]
	}
	run, ok := map[string]func(context.Context, []string) error{"serve": serve, "ping": ping, "get": get, "lookup": lookup, "open": open, "cpu": cpu}[command]
	if !ok {
		fmt.Fprintf(os.Stderr, "target: unknown command %q: want serve, ping, get, lookup, open or cpu\n", command)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, args); {
	case err == nil || errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}
