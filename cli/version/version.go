// Package version prints the version of squall before the rest of the program is ready.
//
// A program initializes its packages in the order of their import paths, as far as imports
// allow (since Go 1.21). The clients of Kubernetes and Temporal take longer than everything
// else in a small program. This package imports next to nothing and comes before them, so
// `squall version` does not wait for clients.
package version

import (
	"os"
	"runtime"
)

// Version and Revision are those of the checkout, set by the linker (-X). Without that
// Version is empty, and the build information of Go replaces both.
var Version, Revision string

// Command is the subcommand that prints the version.
const Command = "version"

// API is the version of Squall's resources: that of package v1beta1, which would bring
// clients.
const API = "chaos.squall.dev/v1beta1"

// Platform is what the program was built for.
const Platform = runtime.GOOS + "/" + runtime.GOARCH

func init() {
	if Version == "" || len(os.Args) != 2 || os.Args[1] != Command {
		return
	}
	if _, err := os.Stdout.WriteString(Line(Version, Revision, false) + "\n"); err == nil {
		os.Exit(0)
	}
}

// Line is the version for people. modified is true if the sources differed from the
// revision.
func Line(version, revision string, modified bool) string {
	line := "squall " + version + ", API " + API + ", " + runtime.Version() + ", " + Platform
	if revision != "" {
		line += ", revision " + revision[:min(12, len(revision))]
	}
	if modified {
		line += ", modified"
	}
	return line
}
