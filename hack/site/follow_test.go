package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFollow reports exactly the links that lead nowhere or to another machine.
func TestFollow(t *testing.T) {
	site := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(site, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(site, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("docs/index.html", `<h1 id="here">`)
	write("index.html", `<a href="docs"><a href="docs/index.html#here"><a href="https://temporal.io">`)
	if pages, links, err := follow(site); pages != 2 || links != 3 || err != nil {
		t.Errorf("follow of a good site = %d, %d, %v, want 2 pages, 3 links and no error", pages, links, err)
	}
	wrong := map[string]string{
		`<a href="gone.html">`:             "there is no such file",
		`<a href="docs/index.html#there">`: "that page has no such anchor",
		`<script src="https://a.example">`: "loaded from another machine",
	}
	for page, want := range wrong {
		write("index.html", page)
		if _, _, err := follow(site); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("follow of %s = %v, want an error that says %q", page, err, want)
		}
	}
}
