package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// platform is one for which a program is built.
type platform struct{ system, architecture string }

func (p platform) String() string { return p.system + "-" + p.architecture }

// program is one of the product's. image is the image that it is in; typed is true for
// what people run on machines of their own.
type program struct {
	name, source, image string
	typed               bool
	module              string // its directory; "" is the checkout's
	tags                string
	platforms           []platform
}

// binary is a program that was built.
type binary struct {
	program
	platform
	path string
	info *buildinfo.BuildInfo
}

var (
	nodes  = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	people = append([]platform{{"darwin", "amd64"}, {"darwin", "arm64"}}, nodes...)

	programs = []program{
		{name: "worker", source: "./worker", image: "squall", tags: "grpcnotrace", platforms: nodes},
		{name: "crdbridge", source: "./crdbridge", image: "squall", tags: "grpcnotrace", platforms: nodes},
		{name: "injector", source: "./injector", image: "injector", tags: "grpcnotrace", platforms: nodes},
		{name: "temporal", source: ".", image: "temporal", module: "hack/temporal", platforms: nodes},
		{name: "squall", source: "./cli", image: "cli", typed: true, platforms: people},
	}
)

// limited are programs for those platforms alone that a list names, with commas between
// them. An empty list names all.
func limited(programs []program, list string) ([]program, error) {
	if list == "" {
		return programs, nil
	}
	var only []platform
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(people, func(p platform) bool { return p.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("-platforms names %q: want some of %v", name, people)
		}
		only = append(only, people[i])
	}
	if !slices.ContainsFunc(only, func(p platform) bool { return slices.Contains(nodes, p) }) {
		return nil, fmt.Errorf("-platforms=%s has none that nodes run on: want at least one of %v", list, nodes)
	}
	some := slices.Clone(programs)
	for i, p := range some {
		some[i].platforms = slices.DeleteFunc(slices.Clone(p.platforms), func(on platform) bool { return !slices.Contains(only, on) })
	}
	return some, nil
}

var errUncommitted = errors.New("files differ from the commit: nobody could build this version again; commit them, or put them aside (git stash -u)")

// committed returns errUncommitted, wrapped, before anything is built. Without
// this check identify would find the same a minute later.
func (r *release) committed(ctx context.Context) error {
	changed, err := exec.CommandContext(ctx, "git", "-C", r.root, "status", "--porcelain").Output()
	if err != nil {
		return fmt.Errorf("ask git what %s is a checkout of: %w: want a checkout of git", r.root, err)
	}
	if first, _, found := strings.Cut(string(changed), "\n"); found {
		return fmt.Errorf("%w; the first: %s", errUncommitted, strings.TrimSpace(first))
	}
	return nil
}

// build builds all programs for all their platforms. The same commit and the
// same Go give the same bytes.
func (r *release) build(ctx context.Context, into string) ([]binary, error) {
	var built []binary
	for _, p := range r.programs {
		for _, on := range p.platforms {
			r.progress("build %s for %s", p.name, on)
			path, err := filepath.Abs(filepath.Join(into, on.String(), p.name))
			if err != nil {
				return nil, err
			}
			cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-tags", p.tags, "-ldflags", r.linking(p), "-o", path, p.source)
			cmd.Dir = filepath.Join(r.root, p.module)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOOS="+on.system, "GOARCH="+on.architecture)
			if output, err := cmd.CombinedOutput(); err != nil {
				return nil, fmt.Errorf("build %s for %s: %w\n%s", p.name, on, err, output)
			}
			info, err := buildinfo.ReadFile(path)
			if err != nil {
				return nil, err
			}
			if r.version == "" {
				if err := r.identify(info); err != nil {
					return nil, err
				}
			}
			built = append(built, binary{p, on, path, info})
		}
	}
	return built, nil
}

// linking are the linker's flags. The programs that people type have their version
// linked in. The first program built is not among them, because identify reads the
// version from it.
func (r *release) linking(p program) string {
	if !p.typed || r.version == "" {
		return "-s -w"
	}
	const version = "github.com/squall-chaos/squall/cli/version"
	return fmt.Sprintf("-s -w -X %s.Version=%s -X %s.Revision=%s", version, r.version, version, r.revision)
}

// identify takes version, revision and time from Go's notes in the first program,
// so that a release and the versions that its programs print cannot differ.
func (r *release) identify(info *buildinfo.BuildInfo) error {
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.modified":
			if setting.Value == "true" {
				return errUncommitted
			}
		case "vcs.revision":
			r.revision = setting.Value
		case "vcs.time":
			at, err := time.Parse(time.RFC3339, setting.Value)
			if err != nil {
				return err
			}
			r.time = at
		}
	}
	r.version = info.Main.Version
	if r.revision == "" || !strings.HasPrefix(r.version, "v") {
		return fmt.Errorf("the programs do not say of which commit they are (version %q, revision %q): want a checkout of git", r.version, r.revision)
	}
	return nil
}
