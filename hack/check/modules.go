package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// unvetted names the modules that make verify neither vets nor runs staticcheck on, each
// with its reason. Every other module with Go files is checked.
var unvetted = map[string]string{
	"hack/temporal":         "imports the Temporal server, four minutes to compile; the toolchain builds it",
	"hack/tools/coredns":    "imports CoreDNS, more than a minute to compile; the toolchain builds its one file",
	"hack/tools/kubernetes": "imports all of Kubernetes, seven minutes to compile; the toolchain builds its one file",
}

// modules returns the directories of the modules that make verify checks: those that
// git tracks and that have Go files of their own, without the unvetted ones. An entry of
// unvetted that is no such module is an error.
func modules(root string) ([]string, error) {
	tracked, err := output(root, "git", "ls-files", "*go.mod", "*.go")
	if err != nil {
		return nil, err
	}
	own := map[string]bool{} // whether a module has Go files
	for file := range strings.Lines(tracked) {
		if file = strings.TrimSpace(file); path.Base(file) == "go.mod" {
			own[path.Dir(file)] = false
		}
	}
	for file := range strings.Lines(tracked) {
		directory := path.Dir(strings.TrimSpace(file))
		for _, is := own[directory]; !is && directory != "."; _, is = own[directory] {
			directory = path.Dir(directory)
		}
		if _, is := own[directory]; is && strings.HasSuffix(strings.TrimSpace(file), ".go") {
			own[directory] = true
		}
	}
	for module := range unvetted {
		if !own[module] {
			return nil, fmt.Errorf("unvetted in hack/check/modules.go names %s, which is no module with Go files", module)
		}
	}
	maps.DeleteFunc(own, func(module string, files bool) bool { return !files || unvetted[module] != "" })
	return slices.Sorted(maps.Keys(own)), nil
}
