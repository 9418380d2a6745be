package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each sample names the schema of its kind in its first line, so editors check it.
func TestSamplesNameTheirSchema(t *testing.T) {
	const begin = "# yaml-language-server: $schema=https://raw.githubusercontent.com/squall-chaos/squall/main/deploy/"
	var files []string
	for _, pattern := range []string{"samples/*.yaml", "samples/policies/*.yaml", "samples/demo/slow-cart.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindSubmatch(text)
		first, _, _ := strings.Cut(string(text), "\n")
		schema, found := strings.CutPrefix(first, begin)
		if !found || kind == nil || schema != "schemas/"+strings.ToLower(string(kind[1]))+".json" {
			t.Errorf("%s begins with %q, want %sschemas/KIND.json", file, first, begin)
			continue
		}
		if _, err := os.Stat(schema); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
