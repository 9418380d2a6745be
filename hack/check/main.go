// Command check runs what finds most mistakes in under a minute, on any system
// that Go runs on, without root, a server or a cluster: gofmt, go vet, the rules
// of the code (./test), and the tests of plain packages.
//
//	go run ./check
//	go run ./check -loop -run TestClean activities    the tests of one package, whatever they need
//	go run ./check -modules                           print the modules that make verify checks
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	one := flag.Bool("loop", false, "run the tests of one package, which the argument names, instead")
	run := flag.String("run", "", "with -loop, only the tests that match this `regexp`")
	list := flag.Bool("modules", false, "print the directories of the modules that make verify vets, instead")
	flag.Parse()
	root, err := filepath.Abs("..")
	if err == nil {
		_, err = os.Stat(filepath.Join(root, "hack", "check"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "check: run make check in the root of the checkout:", err)
		os.Exit(2)
	}
	if *list {
		found, err := modules(root)
		if err != nil {
			fmt.Fprintln(os.Stderr, "modules:", err)
			os.Exit(1)
		}
		fmt.Println(strings.Join(found, "\n"))
		return
	}
	if *one {
		began := time.Now()
		if err := loop(root, flag.Arg(0), *run, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "loop:", err)
			os.Exit(1)
		}
		fmt.Printf("%.1f s\n", time.Since(began).Seconds())
		return
	}
	if !check(root) {
		os.Exit(1)
	}
}

// check returns true when every step passes. A step that fails does not end it.
func check(root string) bool {
	failed := false
	for _, step := range []struct {
		name string
		run  func(root string) (summary string, err error)
	}{
		{"gofmt", format},
		{"go vet", vet},
		{"go test", test},
	} {
		began := time.Now()
		summary, err := step.run(root)
		if err != nil {
			failed, summary = true, "FAILED: "+err.Error()
		}
		fmt.Printf("%-8s %5.1f s  %s\n", step.name, time.Since(began).Seconds(), summary)
	}
	return !failed
}

func format(root string) (string, error) {
	tracked, err := output(root, "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.go")
	if err != nil {
		return "", err
	}
	var files []string
	for _, file := range strings.Fields(tracked) {
		if _, err := os.Stat(filepath.Join(root, file)); err == nil { // git lists a deleted file until the deletion is staged
			files = append(files, file)
		}
	}
	unformatted, err := output(root, "gofmt", append([]string{"-l"}, files...)...)
	if err != nil {
		return "", err
	}
	if unformatted != "" {
		return "", fmt.Errorf("gofmt -w %s", strings.Join(strings.Fields(unformatted), " "))
	}
	return fmt.Sprintf("%d files", len(files)), nil
}

func vet(root string) (string, error) {
	command := exec.Command("go", "vet", "-tags", "e2e", "./...")
	command.Dir, command.Stdout, command.Stderr = root, os.Stdout, os.Stderr
	return "the root module", command.Run()
}

func test(root string) (string, error) {
	packages, err := list(root)
	if err != nil {
		return "", err
	}
	plain, needing := choose(packages)
	r := newResults(os.Stdout)
	// No -count=1: an unchanged package's result comes from Go's cache. The linker
	// omits what only a debugger needs; vet is a step of its own.
	arguments := append([]string{"test", "-json", "-vet=off", "-ldflags=-w", rules}, plain...)
	command := exec.Command("go", arguments...)
	command.Dir, command.Stdout, command.Stderr = root, r, os.Stderr
	err = command.Run()
	return r.summary(len(plain)+1, needing), err
}

// output returns what a program prints, and in its error what it prints on stderr.
func output(dir, name string, arguments ...string) (string, error) {
	command := exec.Command(name, arguments...)
	var stderr bytes.Buffer
	command.Dir, command.Stderr = dir, &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(out), nil
}
