package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	errNoPackage = errors.New("name a package by its directory: make loop PKG=activities RUN=TestClean")
	errNoTests   = errors.New("no test ran")
)

// loop runs the tests of one package, those that match run if it is not empty, as
// make test-unit would. A test whose needs are not met fails, unless the caller
// sets SQUALL_REQUIRE to something else. The result never comes from a cache.
//
// Every run starts its own API server and Temporal, so no run sees the objects of an
// earlier one.
func loop(root, directory, run string, out io.Writer) error {
	if directory == "" {
		return errNoPackage
	}
	directory = filepath.Join(root, directory)
	files, _ := filepath.Glob(filepath.Join(directory, "*_test.go"))
	if len(files) == 0 {
		return fmt.Errorf("no tests in %s: %w", directory, errNoPackage)
	}
	var printed bytes.Buffer
	command := exec.Command("go", "test", "-count=1", "-vet=off", "-ldflags=-w", "-timeout=10m", "-run", run, ".")
	command.Dir, command.Env = directory, os.Environ()
	if _, set := os.LookupEnv("SQUALL_REQUIRE"); !set {
		command.Env = append(command.Env, "SQUALL_REQUIRE=1")
	}
	command.Stdout = io.MultiWriter(out, &printed)
	command.Stderr = command.Stdout
	err := command.Run()
	return errors.Join(err, hint(printed.String(), run, os.Geteuid()))
}

// hint names the way on if the output of go test shows that tests lack something,
// or that there were none.
func hint(printed, run string, user int) error {
	switch {
	case strings.Contains(printed, "[no tests to run]"):
		return fmt.Errorf("%w: none matches %q", errNoTests, run)
	case strings.Contains(printed, "build constraints exclude all Go files"), strings.Contains(printed, "[no test files]"):
		return fmt.Errorf("%w: they need another system or a build tag; make help lists make e2e, ui and site", errNoTests)
	case user != 0 && strings.Contains(printed, "needs root"):
		return errors.New("these tests need root: run make loop with sudo -E env \"PATH=$PATH\"")
	case strings.Contains(printed, "no kube-apiserver"), strings.Contains(printed, "no Temporal server"):
		return errors.New("build the servers once, a quarter of an hour: cd hack && go run ./devcluster build")
	}
	return nil
}
