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
	if _, err := os.Stat(config.ReadyFile); err == nil {
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
