// Command target is the workload that the examples and tests disturb, and the
// client that feels it:
//
//	target [serve]          HTTP, TCP echo and UDP echo; optionally writes to a disk
//	target ping --udp A:P   counts how many datagrams come back, as JSON
//	target get URL          fetches once, as JSON
//	target lookup NAME      the addresses of a name, as JSON
//	target open FILE        opens again and again and counts how that ends, as JSON
//	target cpu              the cores its container takes, all processes together, as JSON
//
// Without flags serve does nothing until it is asked, so that all load that
// shows is somebody else's.
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
