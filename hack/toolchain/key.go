package toolchain

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// recipe changes when the way of building does, so that old results are not
// used.
const recipe = "2"

// Version is the version of a module that a go.mod requires.
func Version(gomod []byte, module string) (string, error) {
	line := regexp.MustCompile(`(?m)^\s*(?:require\s+)?` + regexp.QuoteMeta(module) + `\s+(v\S+)`)
	found := line.FindSubmatch(gomod)
	if found == nil {
		return "", fmt.Errorf("go.mod does not require %s", module)
	}
	return string(found[1]), nil
}

// Key names the result of building a tool: its version and a hash of its
// go.mod, go.sum, own sources and of how it is built. Equal keys mean equal
// programs.
func Key(hack fs.FS, t Tool) (key, version string, err error) {
	gomod, err := fs.ReadFile(hack, clean(t.Dir+"/go.mod"))
	if err != nil {
		return "", "", fmt.Errorf("make the key of %s: %w", t.Name, err)
	}
	version = "dev"
	if t.Module != "" {
		if version, err = Version(gomod, t.Module); err != nil {
			return "", "", fmt.Errorf("make the key of %s: %w", t.Name, err)
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s %s %v %v\n", recipe, runtime.GOARCH, t.Builds(version), t.Images)
	files := []string{clean(t.Dir + "/go.mod"), clean(t.Dir + "/go.sum")}
	for _, dir := range t.Sources {
		sources, err := fs.Glob(hack, dir+"/*.go")
		if err != nil {
			return "", "", fmt.Errorf("make the key of %s: %w", t.Name, err)
		}
		slices.Sort(sources)
		for _, name := range sources {
			if !strings.HasSuffix(name, "_test.go") {
				files = append(files, name)
			}
		}
	}
	for _, name := range files {
		content, err := fs.ReadFile(hack, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a module without dependencies has no go.sum
		}
		if err != nil {
			return "", "", fmt.Errorf("make the key of %s: %w", t.Name, err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", name, len(content), content)
	}
	return fmt.Sprintf("%s-%s-%s", t.Name, version, hex.EncodeToString(hash.Sum(nil)[:6])), version, nil
}

// clean makes "./go.mod" a path that an fs.FS takes.
func clean(name string) string {
	if len(name) > 2 && name[:2] == "./" {
		return name[2:]
	}
	return name
}
