package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/squall-chaos/squall/hack/toolchain"
)

const module = "module github.com/squall-chaos/squall/hack\n"

// hackDir finds the hack module in the working directory, in one above it or
// beside one of those.
func hackDir() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the hack module: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "hack")} {
			content, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
			if err == nil && strings.HasPrefix(string(content), module) {
				return candidate, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no hack module here or above; run devcluster in the checkout")
		}
	}
}

// steps prints what is done, each line with the seconds since the start.
type steps struct{ began time.Time }

func newSteps() steps { return steps{began: time.Now()} }

func (s steps) logf(format string, args ...any) {
	fmt.Printf("%7.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func build(ctx context.Context, args []string) error {
	flags, _ := flagSet("build", "")
	if _, err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	s := newSteps()
	programs, err := buildAll(ctx, s)
	if err != nil {
		return err
	}
	s.logf("programs are in %s", filepath.Dir(programs["kubernetes"]))
	return nil
}

// buildAll returns the directory of every tool's programs.
func buildAll(ctx context.Context, s steps) (map[string]string, error) {
	hack, err := hackDir()
	if err != nil {
		return nil, err
	}
	cache, err := toolchain.CacheDir()
	if err != nil {
		return nil, err
	}
	return toolchain.Builder{Hack: hack, Cache: cache, Report: s.logf}.All(ctx)
}
