// Command pictures draws the effect of each kind of disruption on a target, from
// runs on a real cluster. It measures some seconds before, during and after the
// status of a Disruption is Injected, and writes an SVG picture for each kind. Its
// exit code is 1 if one of them cannot be drawn.
//
//	pictures [-out docs/images/kinds] [KIND...]
//
// It needs a cluster of two nodes with Squall installed and the images of targets
// and probes, as make demo leaves one. Node failure needs a third node with a
// kernel of its own (hack/README.md). Without such a node it is skipped, unless it
// was named.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/cli/chart"
	"github.com/squall-chaos/squall/test/revision"
)

func main() {
	out := flag.String("out", "docs/images/kinds", "`directory` of the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := draw(ctx, *out, flag.Args()); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

// draw makes the pictures of some kinds, or of all.
func draw(ctx context.Context, out string, kinds []string) error {
	for _, kind := range kinds {
		if !slices.ContainsFunc(plans, func(p plan) bool { return string(p.kind) == kind }) {
			return fmt.Errorf("nobody knows how to draw %q", kind)
		}
	}
	commit, err := revision.Of(".", false, "docs")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	c, err := findCluster(ctx)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if len(kinds) > 0 && !slices.Contains(kinds, string(p.kind)) {
			continue
		}
		if p.ownKernel && c.own == nil {
			if len(kinds) > 0 {
				return fmt.Errorf("%s: the cluster has no third node with a kernel of its own: devcluster up --nodes 3 --virtual 3", p.kind)
			}
			fmt.Printf("%s is left out: no third node has a kernel of its own\n", p.kind)
			continue
		}
		fmt.Printf("%s %s\n", time.Now().Format(time.TimeOnly), p.kind)
		picture, err := c.picture(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.kind, err)
		}
		on := c.machine
		if p.ownKernel {
			on = "a virtual machine, " + machine(*c.own)
		}
		picture.Foot = fmt.Sprintf("Measured on %s at commit %s, %s; load %s.", time.Now().Format("2 January 2006"), commit, on, load())
		if err := os.WriteFile(filepath.Join(out, string(p.kind)+".svg"), []byte(picture.SVG()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// picture carries out a plan.
func (c *cluster) picture(ctx context.Context, p plan) (chart.Picture, error) {
	picture, specs := chart.Picture{Title: p.title}, []string{}
	for _, r := range p.runs {
		seen, err := c.run(ctx, p, r)
		if err != nil {
			return picture, err
		}
		specs = append(specs, r.spec)
		picture.Span = max(picture.Span, seen.span)
		picture.Panels = append(picture.Panels, seen.panels(r.figures)...)
	}
	picture.Notes = []string{strings.Join(specs, " · ")}
	return picture, nil
}

// load is how many programs of this machine want a processor, of which the nodes of
// a development cluster are a part.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	one, _, _ := strings.Cut(string(text), " ")
	return one
}
