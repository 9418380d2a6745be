package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page of each kind shows its effect as make pictures measured it, and a picture is
// small and needs nothing from elsewhere.
func TestEveryKindHasItsPicture(t *testing.T) {
	pages, err := filepath.Glob("../docs/kinds/*.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, page := range pages {
		kind := strings.TrimSuffix(filepath.Base(page), ".md")
		if kind == "README" {
			continue
		}
		picture := "images/kinds/" + kind + ".svg"
		if !strings.Contains(prose(t, page), "](../"+picture+")") {
			t.Errorf("%s: show ../%s, which make pictures draws", page, picture)
		}
		shown["../docs/"+picture] = true
	}
	if len(shown) < 10 {
		t.Fatalf("%d pages show a picture: the test would prove little", len(shown))
	}
	drawn, err := filepath.Glob("../docs/images/kinds/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, picture := range drawn {
		if !shown[picture] {
			t.Errorf("%s is on no page of its kind", picture)
		}
		if wrong := unfit(t, picture); wrong != "" {
			t.Errorf("%s %s", picture, wrong)
		}
	}
}

// README shows a run of squall demo, which make recording records.
func TestTheRecordingIsFitForREADME(t *testing.T) {
	const recording = "docs/images/demo.svg"
	if wrong := unfit(t, "../"+recording); wrong != "" || !strings.Contains(prose(t, "../README.md"), "]("+recording+")") {
		t.Errorf("%s %s; README.md must show it", recording, wrong)
	}
}

// fromElsewhere is what a document could load or run.
var fromElsewhere = regexp.MustCompile(`<script|<image|<foreignObject|href|@import|url\(`)

// unfit returns the defect of a picture.
func unfit(t *testing.T, picture string) string {
	t.Helper()
	text, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case len(text) >= 20_000:
		return "is too large for a page: 20 kB are the most"
	case fromElsewhere.Match(text):
		return "takes something from elsewhere: " + string(fromElsewhere.Find(text))
	case !regexp.MustCompile(`Measured on \d+ \w+ \d{4} at commit [0-9a-f]{10}, `).Match(text):
		return "does not say when and at which commit it was measured"
	}
	return ""
}
