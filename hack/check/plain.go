package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const module = "github.com/squall-chaos/squall/"

// rules is the package that tests the code itself. It starts go list, but reads
// every Go file too, so Go's cache of tests notices each change.
const rules = "./test"

// needs are the packages that give a test what not every machine has, and what
// that is. A package whose tests reach one of them through the module's packages is
// not plain.
var needs = map[string]string{
	module + "test/apiserver":      "an API server",
	module + "test/temporalserver": "a Temporal",
	module + "test/testneeds":      "root",
}

// startsPrograms is a need only of a package whose own tests import it: Go's
// cache of tests does not see what the programs read.
const startsPrograms = "os/exec"

// goPackage is the part of go list -json that decides whether a package is plain.
type goPackage struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func list(root string) ([]goPackage, error) {
	text, err := output(root, "go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read what go list prints: %w", err)
		}
		packages = append(packages, p)
	}
}

// choose returns the plain packages that have tests, and for each need how many
// packages have it.
func choose(packages []goPackage) (plain []string, needing map[string]int) {
	imports := map[string][]string{}
	for _, p := range packages {
		imports[p.ImportPath] = p.Imports
	}
	needing = map[string]int{}
	for _, p := range packages {
		direct := slices.Concat(p.TestImports, p.XTestImports)
		if len(direct) == 0 || p.ImportPath == module+"test" {
			continue
		}
		found := map[string]bool{}
		if slices.Contains(direct, startsPrograms) {
			found["other programs"] = true
		}
		reach(append(direct, p.Imports...), imports, map[string]bool{}, found)
		if len(found) == 0 {
			plain = append(plain, p.ImportPath)
		}
		for need := range maps.Keys(found) {
			needing[need]++
		}
	}
	return plain, needing
}

// reach adds to found the needs of the packages named and of all they import.
func reach(names []string, imports map[string][]string, seen, found map[string]bool) {
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		if need := needs[name]; need != "" {
			found[need] = true
		}
		reach(imports[name], imports, seen, found)
	}
}
