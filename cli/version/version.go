// Package version says which version of squall this is before the rest of the program
// is ready.
//
// A program initializes its packages in the order of their import paths, as far as
// imports allow (since Go 1.21), and those of Kubernetes' and Temporal's clients take
// longer than all that a small program does. This one imports next to nothing and comes
// before them: whoever asks for the version alone does not wait for clients.
package version

import (
	"os"
	"runtime"
)

// Version and Revision are those of the checkout, by the linker (-X). Where it was told
// nothing, the first is empty, and what Go notes in programs must do.
var Version, Revision string

// Command is the word by which people ask.
const Command = "version"

// API is the version of Squall's resources: that of package v1beta1, which would bring clients.
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

// Line says it for people. modified is true if the sources differed from the revision.
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
