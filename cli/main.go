// Command squall is the tool of people and pipelines. It checks and explains manifests,
// runs disruptions and waits for their end, stops them, resumes stuck ones, and checks an
// installation. kubectl and Temporal's web interface can do the same; squall stores
// nothing. Called kubectl-squall it is a plugin of kubectl.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/squall-chaos/squall/cli/console"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := squall(ctx, os.Args, console.StandardStreams())
	stop()
	os.Exit(code)
}
