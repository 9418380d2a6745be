// Command release writes everything of a version into a directory: the program
// squall for each platform, the images as OCI layouts for two architectures,
// manifests, the Helm chart, a bill of materials and checksums. It needs neither a
// container engine nor a registry, and publishes only with -push.
//
//	go run . -registry registry.example.com/chaos
//	go run . -registry registry.example.com/chaos -tag v7      # manifests and chart for images that are there
//	go run . -push ../../dist/v7                               # images and chart into that registry
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// release lists what is made of which checkout.
type release struct {
	root     string // the checkout
	out      string // directory of which each version is a subdirectory
	registry string // where images are, such as registry.example.com/chaos
	roots    string // file of certificate authorities for the programs' image
	programs []program
	logf     io.Writer // what is done, for people

	version  string    // v0.1.0, or Go's name of a commit without a tag; if given, nothing is built
	time     time.Time // of the commit, for archives
	revision string
}

func main() {
	r := release{programs: programs, logf: os.Stderr}
	flag.StringVar(&r.root, "root", "../..", "`directory` of the checkout")
	flag.StringVar(&r.out, "o", "../../dist", "`directory` that gets one for the version")
	flag.StringVar(&r.registry, "registry", "squall.local", "`name` under which manifest and chart have the images, without a tag")
	flag.StringVar(&r.version, "tag", "", "`tag` of images that are there already: nothing is built, manifests and chart are for these")
	flag.StringVar(&r.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "`file` of certificate authorities, for a Temporal whose certificate a public one signed")
	only := flag.String("platforms", "", "`names`, such as linux-amd64, separated by commas: programs and images for these alone, for a try (default: all)")
	push := flag.String("push", "", "`directory` of a release: nothing is built, its images and chart are pushed into the registry for which it was made")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: release [-registry NAME] [-o DIRECTORY] [-tag TAG]\n\nThe version is the tag of the commit. Without a tag it is Go's name of the commit.")
		flag.PrintDefaults()
	}
	flag.Parse()
	var err error
	if r.programs, err = limited(programs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if *push != "" {
		pushed, err := publish(ctx, *push, os.Stderr)
		if err != nil {
			fmt.Fprintln(os.Stderr, "release:", err)
			os.Exit(1)
		}
		fmt.Println(strings.Join(pushed, "\n"))
		return
	}
	made, err := r.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
	fmt.Println(made)
}

// step makes files of a release out of the programs.
type step struct {
	what string
	do   func(into string, built []binary) error
}

// run returns the directory with the release, which replaces one of the same
// version as a whole.
func (r *release) run(ctx context.Context) (string, error) {
	if flag.NArg() > 0 {
		return "", fmt.Errorf("argument %q: want flags only; see --help", flag.Arg(0))
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(r.out, ".work-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(work) }()
	into := filepath.Join(work, "release")
	if err := os.Mkdir(into, 0o755); err != nil {
		return "", err
	}
	steps := []step{{"manifests", r.manifests}, {"chart", r.chart}}
	var built []binary
	if r.version == "" {
		if err := r.committed(ctx); err != nil {
			return "", err
		}
		if built, err = r.build(ctx, filepath.Join(work, "bin")); err != nil {
			return "", err
		}
		steps = append(steps, step{"command line", r.archives}, step{"images", r.images}, step{"bill of materials", r.materials})
	}
	for _, s := range append(steps, step{"checksums", r.checksums}) {
		r.progress("%s: %s", r.version, s.what)
		if err := s.do(into, built); err != nil {
			return "", fmt.Errorf("%s: %w", s.what, err)
		}
	}
	final := filepath.Join(r.out, r.version)
	if err := errors.Join(os.RemoveAll(final), os.Rename(into, final)); err != nil {
		return "", err
	}
	return final, nil
}

func (r *release) progress(format string, args ...any) {
	fmt.Fprintf(r.logf, time.Now().Format("15:04:05 ")+format+"\n", args...)
}
