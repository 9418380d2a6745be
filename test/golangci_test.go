package test

import (
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"
)

// golangci is what .golangci.yml may contain.
type golangci struct {
	Version string `json:"version"`
	Run     struct {
		BuildTags []string `json:"build-tags"`
	} `json:"run"`
	Linters struct {
		Default  string   `json:"default"`
		Enable   []string `json:"enable"`
		Settings struct {
			Funlen struct {
				Lines          int  `json:"lines"`
				Statements     int  `json:"statements"`
				IgnoreComments bool `json:"ignore-comments"`
			} `json:"funlen"`
			Staticcheck struct {
				Checks []string `json:"checks"`
			} `json:"staticcheck"`
		} `json:"settings"`
		Exclusions struct {
			Rules []struct {
				Path    string   `json:"path"`
				Linters []string `json:"linters"`
			} `json:"rules"`
		} `json:"exclusions"`
	} `json:"linters"`
	Formatters struct {
		Enable []string `json:"enable"`
	} `json:"formatters"`
}

// TestGolangciConfig reads .golangci.yml, because golangci-lint refuses an unknown name
// only where it is installed. A linter is added here once the code obeys it.
func TestGolangciConfig(t *testing.T) {
	content, err := os.ReadFile("../.golangci.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c golangci
	if err := yaml.UnmarshalStrict(content, &c); err != nil {
		t.Fatalf(".golangci.yml: %v", err)
	}
	if c.Version != "2" || c.Linters.Default != "none" {
		t.Errorf("version %q with the linters %q by default, want 2 and none", c.Version, c.Linters.Default)
	}
	linters, formatters := []string{"funlen", "govet", "ineffassign", "staticcheck", "unused"}, []string{"gofmt"}
	if !slices.Equal(c.Linters.Enable, linters) || !slices.Equal(c.Formatters.Enable, formatters) {
		t.Errorf("enables %q and %q, want %q and %q", c.Linters.Enable, c.Formatters.Enable, linters, formatters)
	}
	for _, rule := range c.Linters.Exclusions.Rules {
		for _, name := range rule.Linters {
			if !slices.Contains(linters, name) {
				t.Errorf("excludes %s from %q, which is not enabled", rule.Path, name)
			}
		}
	}
	if c.Linters.Settings.Funlen.Lines != 60 {
		t.Errorf("functions of %d lines, want 60 as in TestShortFunctions", c.Linters.Settings.Funlen.Lines)
	}
}
