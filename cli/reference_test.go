package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/test/golden"
)

// referencePath is the page of all commands and flags; make generate writes it.
const referencePath = "../docs/reference/cli.md"

const referenceHead = `# Commands and flags

This page lists every command and flag. [Command line](../cli.md) explains the tasks. ` + "`make generate`" + ` writes this
page from the help texts.

`

// commonFlag is how many commands have a flag that the page lists once.
const commonFlag = 4

func TestReferencePage(t *testing.T) {
	golden.Compare(t, referencePath, commandReference(commandTree()))
}

// Every command has its heading and every flag its row.
func TestReferenceHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile(referencePath)
	if err != nil {
		t.Fatal(err)
	}
	flags := 0
	for _, c := range everyCommand(commandTree()) {
		if !strings.Contains(string(page), "\n## "+c.CommandPath()+"\n") {
			t.Errorf("the page has no section on %s", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			flags++
			if !f.Hidden && !strings.Contains(string(page), "| `--"+f.Name+"`") {
				t.Errorf("the page has no row for the flag --%s of %s", f.Name, c.CommandPath())
			}
		})
	}
	if flags < 50 {
		t.Fatalf("%d flags were found: the test would prove little", flags)
	}
}

func commandTree() *cobra.Command {
	s := console.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}
	return commands("squall", s)
}

// everyCommand returns all commands below root that people see, in order.
func everyCommand(root *cobra.Command) (all []*cobra.Command) {
	for _, c := range root.Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			all = append(append(all, c), everyCommand(c)...)
		}
	}
	return all
}

// commandReference is the page of all commands below root.
func commandReference(root *cobra.Command) string {
	var page strings.Builder
	page.WriteString(referenceHead + prose(root.Long) + "\n\n| command | purpose |\n|---|---|\n")
	commands := everyCommand(root)
	users := map[string]int{}
	for _, c := range commands {
		fmt.Fprintf(&page, "| [`%s`](#%s) | %s |\n", c.CommandPath(), strings.ReplaceAll(c.CommandPath(), " ", "-"), c.Short)
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { users[flagRow(f)]++ })
	}
	page.WriteString("\n## Common flags\n\n" + flagHead)
	for _, row := range slices.Sorted(maps.Keys(users)) {
		if users[row] >= commonFlag {
			page.WriteString(row)
		}
	}
	for _, c := range commands {
		writeCommand(&page, c, users)
	}
	return page.String()
}

const flagHead = "| flag | default | meaning |\n|---|---|---|\n"

// writeCommand adds the section on a command. users counts the commands with a flag.
func writeCommand(page *strings.Builder, c *cobra.Command, users map[string]int) {
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	fmt.Fprintf(page, "\n## %s\n\n%s\n\n```console\n$ %s\n```\n", c.CommandPath(), prose(text), c.UseLine())
	own, common := "", []string{}
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		row := flagRow(f)
		switch {
		case f.Hidden || f.Name == "help":
		case users[row] >= commonFlag:
			common = append(common, "`--"+f.Name+"`")
		default:
			own += row
		}
	})
	if own != "" {
		page.WriteString("\n" + flagHead + own)
	}
	if len(common) > 0 {
		fmt.Fprintf(page, "\n[Common flags](#common-flags): %s.\n", strings.Join(common, ", "))
	}
	if c.Example != "" {
		fmt.Fprintf(page, "\nExamples:\n\n```sh\n%s\n```\n", strings.TrimPrefix(strings.ReplaceAll("\n"+c.Example, "\n  ", "\n"), "\n"))
	}
}

// flagRow is the row of a flag.
func flagRow(f *pflag.Flag) string {
	name := "`--" + f.Name + "`"
	if f.Shorthand != "" {
		name += ", `-" + f.Shorthand + "`"
	}
	standard := ""
	if f.DefValue != "" && f.DefValue != "[]" && f.DefValue != "0s" && f.DefValue != "false" {
		standard = "`" + f.DefValue + "`"
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, standard, strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(f.Usage))
}

// prose is a help text as Markdown: its indented lines are a block of code.
func prose(long string) string {
	var page []string
	code := false
	for line := range strings.SplitSeq(long, "\n") {
		if indented := strings.HasPrefix(line, "  "); indented != code {
			page, code = append(page, map[bool]string{true: "```text", false: "```"}[indented]), indented
		}
		page = append(page, strings.TrimPrefix(line, "  "))
	}
	if code {
		page = append(page, "```")
	}
	return strings.Join(page, "\n")
}
