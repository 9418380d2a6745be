package console

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// Format is how a command writes its result: for people when it is empty.
type Format string

// The formats; Wide is for people as well, with more columns.
const (
	JSON Format = "json"
	YAML Format = "yaml"
	Wide Format = "wide"
)

// formatFlag refuses a format that a command does not have.
type formatFlag struct {
	into  *Format
	known []string
}

func (f formatFlag) String() string { return string(*f.into) }
func (f formatFlag) Type() string   { return "format" }

func (f formatFlag) Set(text string) error {
	if !slices.Contains(f.known, text) {
		return fmt.Errorf("want %s", strings.Join(f.known, " or "))
	}
	*f.into = Format(text)
	return nil
}

// Flag adds --output with these formats.
func (f *Format) Flag(to *cobra.Command, known ...string) {
	to.Flags().VarP(formatFlag{f, known}, "output", "o", "output format, one of "+strings.Join(known, ", ")+" (default: a table)")
	_ = to.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// Write writes value as JSON or YAML.
func (f Format) Write(out io.Writer, value any) error {
	if f == YAML {
		text, err := yaml.Marshal(value)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// WriteNext writes value as a further document of a stream.
func (f Format) WriteNext(out io.Writer, value any) error {
	if f == YAML {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
	}
	return f.Write(out, value)
}
