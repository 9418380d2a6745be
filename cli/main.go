// Command squall is what people and pipelines work with: it checks and explains
// manifests, runs disruptions and waits for their end, stops them, resumes those
// that are stuck, and says what is wrong with an installation. It does what
// kubectl and Temporal's web interface can do as well, and keeps nothing. Called
// kubectl-squall it is a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args, standardStreams())
	stop()
	os.Exit(code)
}
