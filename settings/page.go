package settings

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Lists are the references of the program's own settings, and of those that all programs
// have, as lists of Markdown.
func (p Program) Lists() (own, common string) {
	shared := pflag.NewFlagSet("", pflag.ContinueOnError)
	TemporalFlags(shared)
	MetricsFlags(shared)
	TracesFlags(shared)
	var ownLines, commonLines strings.Builder
	p.flagSet(io.Discard).VisitAll(func(f *pflag.Flag) {
		to := &ownLines
		if shared.Lookup(f.Name) != nil || f.Name == "config" || f.Name == "log-level" {
			to = &commonLines
		}
		value := " (`" + f.DefValue + "`)"
		if f.DefValue == "" || f.DefValue == "[]" {
			value = ""
		}
		_, _ = fmt.Fprintf(to, "- `%s`%s: %s\n", f.Name, value, f.Usage)
	})
	return ownLines.String(), commonLines.String()
}

// Visit calls f with each flag of the program.
func (p Program) Visit(f func(*pflag.Flag)) { p.flagSet(io.Discard).VisitAll(f) }
