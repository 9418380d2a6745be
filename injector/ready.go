//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// knownEvery is how often ready looks while it waits.
const knownEvery = 20 * time.Millisecond

// ready is what the startup probe and the readiness probe execute (rules 32,
// 33): it tests the ready file and prints the reason while there is none. The
// kubelet shows what a failed probe prints, so the reason is seen while the
// injector still runs. The startup probe has it wait until either is known.
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
	turned := takeTurn(config) // told by any probe that fails
	if exists(config.ReadyFile) {
		if turned != "" {
			fmt.Fprint(p.stdout, turned) // it is ready again when the next one asks
			return exitNotCleaned
		}
		if err := noteAsked(config); err != nil {
			fmt.Fprintln(p.stderr, err) // it is ready all the same
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
