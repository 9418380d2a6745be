package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/api/v1beta1"
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
	b := build{Version: "unknown", API: v1beta1.GroupVersion.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, known := debug.ReadBuildInfo()
	if !known {
		return b
	}
	b.Version = cmp.Or(info.Main.Version, b.Version)
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Revision = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

func (c *command) version() *cobra.Command {
	var output format
	version := &cobra.Command{
		Use:     "version",
		Short:   "Say which version this is",
		Example: "  squall version\n  squall version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if output != "" {
				return output.write(c.out, b)
			}
			line := fmt.Sprintf("squall %s, API %s, %s, %s", b.Version, b.API, b.Go, b.Platform)
			if b.Revision != "" {
				line += ", revision " + b.Revision[:min(12, len(b.Revision))]
			}
			if b.Modified {
				line += ", modified"
			}
			_, err := fmt.Fprintln(c.out, line)
			return err
		},
	}
	output.flag(version, "json", "yaml")
	return version
}
