package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/version"
)

// build is what the program was built from.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	// Modified is true when the sources differed from the revision.
	Modified bool   `json:"modified,omitempty"`
	API      string `json:"api"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func thisBuild() build {
	b := build{Version: version.Version, Revision: version.Revision, API: version.API, Go: runtime.Version(), Platform: version.Platform}
	if info, known := debug.ReadBuildInfo(); known && b.Version == "" {
		b.Version = info.Main.Version
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				b.Revision = setting.Value
			case "vcs.modified":
				b.Modified = setting.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "unknown")
	return b
}

// line is the build for people.
func (b build) line() string { return version.Line(b.Version, b.Revision, b.Modified) }

// printVersion prints what package version prints before the program starts, and has more
// formats.
func printVersion(s console.Streams) *cobra.Command {
	var output console.Format
	command := &cobra.Command{
		Use:     version.Command,
		Short:   "Print the version",
		Example: "  squall version\n  squall version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output != "" {
				return output.Write(s.Out, b)
			}
			_, err := fmt.Fprintln(s.Out, b.line())
			return err
		},
	}
	output.Flag(command, "json", "yaml")
	return command
}
