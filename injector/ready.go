//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// knownEvery is the interval at which ready checks while it waits.
const knownEvery = 20 * time.Millisecond

// ready is the command of the startup probe and the readiness probe (rules 32, 33). It
// tests the ready file and prints the reason while there is none. The kubelet shows the
// output of a failed probe, so the reason is visible while the injector still runs. For the
// startup probe it waits until either is known.
func (p program) ready(ctx context.Context, config Config, args []string) int {
	flags := flag.NewFlagSet("ready", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	wait := flags.Duration("wait", 0, "how long to wait at most until it is known")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector ready [--wait DURATION]")
		return exitRefused
	}
	until := time.Now().Add(*wait)
	for !exists(config.ReadyFile) && !exists(config.ReasonFile) && time.Now().Before(until) && sleep(ctx, knownEvery) {
	}
	turned := takeTurn(config) // any failing probe reports it
	if exists(config.ReadyFile) {
		if turned != "" {
			fmt.Fprint(p.stdout, turned) // the next probe finds it ready again
			return exitNotCleaned
		}
		if err := noteAsked(config); err != nil {
			fmt.Fprintln(p.stderr, err) // it is ready despite the error
		}
		return exitOK
	}
	known, err := os.ReadFile(config.ReasonFile)
	if err != nil {
		fmt.Fprintln(p.stdout, `{"msg":"not injected yet"}`)
		return exitNotCleaned
	}
	p.stdout.Write(known)
	return exitNotCleaned
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
