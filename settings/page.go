package settings

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Table is the reference of the program's settings, as rows of Markdown.
func (p Program) Table() string {
	var b strings.Builder
	b.WriteString("| setting | default | meaning |\n|---|---|---|\n")
	p.flagSet(io.Discard).VisitAll(func(f *pflag.Flag) {
		value := "`" + f.DefValue + "`"
		if f.DefValue == "" || f.DefValue == "[]" {
			value = "–"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return b.String()
}
