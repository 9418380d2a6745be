package main

import (
	"context"
	"fmt"
	"os"
)

// ready is what the startup probe and the readiness probe execute (rules 32,
// 33): it tests the ready file and prints the reason while there is none. The
// kubelet shows what a failed probe prints, so the reason is seen while the
// injector still runs.
func (p program) ready(_ context.Context, config Config, _ []string) int {
	turned := takeTurn(config) // told by any probe that fails
	if _, err := os.Stat(config.ReadyFile); err == nil {
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
