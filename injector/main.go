//go:build linux

// Package main is the program injector. It disrupts one target in one way, on the target's
// node. It promises to undo its changes when it is asked to, at its deadline at the latest,
// and to report truthfully when it cannot.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Exit codes.
const (
	exitOK         = 0
	exitNotCleaned = 1 // something is left, or the search failed
	exitRefused    = 2 // wrong command, setting or document; nothing was changed
	exitMarksFound = 3 // audit: something on this node carries our marks
)

func main() {
	p := program{kinds: registry, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// program is the injector with the parts that a test replaces.
type program struct {
	kinds          map[v1beta1.Kind]entry
	stdout, stderr io.Writer
}

// command is a subcommand that is not a kind.
type command struct {
	name, help string
	run        func(ctx context.Context, config Config, args []string) int
}

func (p program) commands() []command {
	return []command{
		{"ready", "exit 0 once everything is injected; until then print why not and exit 1 [--wait DURATION]", p.ready},
		{"clean", "undo what journals on this node note [--disruption UID, --target UID, --kind KIND, --except UIDs]", p.clean},
		{"audit", "list what on this node carries the marks of injections; exit 3 if anything does [--disruption UID, --kind KIND, --except UIDs]", p.audit},
		{v1beta1.OnInitCommand, "in an init container: hold the pod back until it is disrupted [--timeout DURATION]", p.wait},
		{"probe-kernel", "show what this kernel can do, by fault", p.probeKernel},
	}
}

// run executes one subcommand and returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		p.usage(p.stderr)
		return exitRefused
	}
	name, rest := args[0], args[1:]
	for _, kind := range p.kinds {
		if kind.child.run != nil && kind.child.command == name {
			return p.runChild(ctx, kind.child, rest)
		}
	}
	for _, reader := range readers() {
		if reader.command == name {
			return p.runChild(ctx, reader, rest)
		}
	}
	if name == "--help" || name == "-h" || name == "help" {
		p.usage(p.stdout)
		return exitOK
	}
	if name == v1beta1.OnInitCommand {
		return p.wait(ctx, Config{}, rest) // no settings are read: any environment of a pod lets it start
	}
	config, err := loadConfig(os.Environ())
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return exitRefused
	}
	if name == guardCommand {
		return p.keepGuard(ctx, config, rest)
	}
	for _, c := range p.commands() {
		if c.name == name {
			return c.run(ctx, config, rest)
		}
	}
	if _, known := p.kinds[v1beta1.Kind(name)]; known && len(rest) == 0 {
		return p.inject(ctx, config, v1beta1.Kind(name))
	}
	fmt.Fprintf(p.stderr, "unknown command %q\n\n", args)
	p.usage(p.stderr)
	return exitRefused
}

func (p program) runChild(ctx context.Context, c child, args []string) int {
	if err := c.run(ctx, args); err != nil {
		fmt.Fprintln(p.stderr, err)
		return exitRefused
	}
	return exitOK
}

func (p program) usage(w io.Writer) {
	fmt.Fprintf(w, "usage: injector <command>\n\nKinds of disruption; the injection is read from the environment variable %s:\n", v1beta1.InjectionEnv)
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		fmt.Fprintf(w, "  %s\n", kind)
	}
	fmt.Fprintf(w, "\nOther commands:\n")
	for _, c := range p.commands() {
		fmt.Fprintf(w, "  %-14s %s\n", c.name, c.help)
	}
}
