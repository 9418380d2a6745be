package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// format is how a command writes its result: for people when it is empty.
type format string

// The formats; wide is for people as well, with more columns.
const (
	asJSON format = "json"
	asYAML format = "yaml"
	asWide format = "wide"
)

// formatFlag refuses a format that a command does not have.
type formatFlag struct {
	into  *format
	known []string
}

func (f formatFlag) String() string { return string(*f.into) }
func (f formatFlag) Type() string   { return "format" }

func (f formatFlag) Set(text string) error {
	if !slices.Contains(f.known, text) {
		return fmt.Errorf("want %s", strings.Join(f.known, " or "))
	}
	*f.into = format(text)
	return nil
}

// flag adds --output with these formats.
func (f *format) flag(to *cobra.Command, known ...string) {
	to.Flags().VarP(formatFlag{f, known}, "output", "o", "output format, one of "+strings.Join(known, ", ")+" (default: a table)")
	_ = to.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// write writes value as JSON or YAML.
func (f format) write(out io.Writer, value any) error {
	if f == asYAML {
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

// writeNext writes value as a further document of a stream.
func (f format) writeNext(out io.Writer, value any) error {
	if f == asYAML {
		if _, err := io.WriteString(out, "---\n"); err != nil {
			return err
		}
	}
	return f.write(out, value)
}
