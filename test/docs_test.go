package test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/squall-chaos/squall/cli/manifest"
)

var (
	// aLink is [text](target), also of a picture.
	aLink = regexp.MustCompile(`\]\(([^)\s]+)(?: "[^"]*")?\)`)
	// aPage is a line of the navigation.
	aPage = regexp.MustCompile(`(?m)^\s*- [^:\n]+: (\S+\.md)$`)
)

// aStop is a row of docs/contributing/walk.md: a file and a function in it.
var aStop = regexp.MustCompile("(?m)^\\| \\d+ \\| `([^`]+)` \\| `(\\w+)` \\|")

// TestStopsOfTheWalk finds each stop of the walk through the code where the page
// shows it.
func TestStopsOfTheWalk(t *testing.T) {
	page, err := os.ReadFile("../docs/contributing/walk.md")
	if err != nil {
		t.Fatal(err)
	}
	stops := aStop.FindAllStringSubmatch(string(page), -1)
	if len(stops) != 10 {
		t.Errorf("%d stops, want 10", len(stops))
	}
	for _, stop := range stops {
		code, err := os.ReadFile(filepath.Join("..", stop[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		if !regexp.MustCompile(`(?m)^func (\([^)]+\) )?` + stop[2] + `\(`).Match(code) {
			t.Errorf("%s has no function %s", stop[1], stop[2])
		}
	}
}

// Every link between files of the repository, and every anchor, is there.
func TestLinksLeadSomewhere(t *testing.T) {
	links := 0
	for _, page := range goFiles(t, ".md") {
		for _, link := range aLink.FindAllStringSubmatch(prose(t, page), -1) {
			links++
			if wrong := followed(t, page, link[1]); wrong != "" {
				t.Errorf("%s: link to %s: %s", page, link[1], wrong)
			}
		}
	}
	if links < 100 {
		t.Fatalf("%d links were found: the test would prove little", links)
	}
}

// Every page of docs is in the site's navigation, once, and every page there exists.
// sourcePath is a file of the repository, named in a page.
var sourcePath = regexp.MustCompile(`\b(?:activities|api|cli|crdbridge|deploy|hack|injector|kube|test|worker|workflows)/[\w./-]+\.(?:go|yaml|md|sh)\b`)

// Files that pages name as text exist.
func TestPagesNameFilesThatExist(t *testing.T) {
	for _, page := range goFiles(t, ".md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range sourcePath.FindAllString(string(text), -1) {
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf("%s names %s, which does not exist", page, path)
			}
		}
	}
}

func TestEveryPageIsInTheNavigation(t *testing.T) {
	config, err := os.ReadFile("../hack/site/mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for _, page := range aPage.FindAllStringSubmatch(string(config), -1) {
		times[page[1]]++
		if _, err := os.Stat("../" + page[1]); err != nil {
			t.Errorf("hack/site/mkdocs.yml: %v", err)
		}
	}
	for _, page := range goFiles(t, ".md") {
		name := strings.TrimPrefix(page, "../")
		if got := times[name]; strings.HasPrefix(name, "docs/") && got != 1 {
			t.Errorf("%s is %d times in the navigation of hack/site/mkdocs.yml, want once", name, got)
		}
	}
}

// Vale checks every sentence of a page: no comment switches a rule off, and the
// configuration switches none off.
func TestNoPageSwitchesValeOff(t *testing.T) {
	off := regexp.MustCompile(`(?i)<!--\s*vale\b`)
	for _, page := range goFiles(t, ".md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if off.Match(text) {
			t.Errorf("%s: remove the comment for Vale, and rewrite the sentence", page)
		}
	}
	config, err := os.ReadFile("../.vale.ini")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`(?i)=\s*(NO|suggestion|warning)\b|Ignore|Skipped`).Match(config) {
		t.Error(".vale.ini has an exception; remove it")
	}
}

// followed returns the error of a page's link.
func followed(t *testing.T, page, link string) string {
	t.Helper()
	to, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if to.Scheme != "" || to.Host != "" {
		return ""
	}
	file := page
	if to.Path != "" {
		file = filepath.Join(filepath.Dir(page), to.Path)
	}
	if _, err := os.Stat(file); err != nil {
		return "there is no such file"
	}
	if to.Path != "" && strings.Contains("/"+filepath.ToSlash(strings.TrimPrefix(file, "../")), "/.") {
		return "the site has no files whose names begin with a dot; write the name as code"
	}
	if to.Fragment == "" {
		return ""
	}
	if !strings.HasSuffix(file, ".md") {
		return "only pages have anchors"
	}
	if !anchors(t, file)[to.Fragment] {
		return "that page has no such heading"
	}
	return ""
}

// prose is a page without its blocks and spans of code, in which nothing is a link.
func prose(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
			continue
		}
		if !fenced {
			kept = append(kept, line)
		}
	}
	return regexp.MustCompile("`[^`\n]*`").ReplaceAllString(strings.Join(kept, ""), "")
}

// anchors are the names of a page's headings, as the forges and the site make them:
// lower case, hyphens for spaces, and no punctuation.
func anchors(t *testing.T, page string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#{1,6} (.*)$`).FindAllStringSubmatch(string(text), -1) {
		shown := regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`).ReplaceAllString(heading[1], "$1")
		names[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(shown))] = true
	}
	return names
}

// maxUserWords is how many words the pages for users may have together, as wc -w
// counts them, so with tables and examples.
const maxUserPageLength = 35000

// generated are the pages that make generate writes from the first word to the last.
var generated = []string{"docs/reference/api.md", "docs/reference/labels.md", "docs/reference/cli.md"}

// The pages for users stay short. They are those of the site's navigation above
// the contributors' section, without the changelog and the generated pages.
// docs/settings.md counts: only its lists are generated.
func TestUsersPagesAreShort(t *testing.T) {
	config, err := os.ReadFile("../hack/site/mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	users, _, found := strings.Cut(string(config), "\n- Contributing:")
	if !found {
		t.Fatal("hack/site/mkdocs.yml has no section Contributing")
	}
	pages, length := 0, 0
	for _, page := range aPage.FindAllStringSubmatch(users, -1) {
		if page[1] == "CHANGELOG.md" || slices.Contains(generated, page[1]) {
			continue
		}
		text, err := os.ReadFile("../" + page[1])
		if err != nil {
			t.Fatal(err)
		}
		pages++
		length += len(strings.Fields(string(text)))
	}
	if pages < 20 {
		t.Fatalf("%d pages were found: the test would prove little", pages)
	}
	if length > maxUserPageLength {
		t.Errorf("the pages for users have %d words, want at most %d: state each fact once, and move details to docs/contributing", length, maxUserPageLength)
	}
}

// Only generated pages are in docs/reference, and each of them names its source.
func TestReferencePagesAreGenerated(t *testing.T) {
	pages, err := filepath.Glob("../docs/reference/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) != len(generated) {
		t.Errorf("docs/reference has %d files, want the %d generated pages", len(pages), len(generated))
	}
	for _, page := range generated {
		text, err := os.ReadFile("../" + page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "`make generate`") {
			t.Errorf("%s does not name make generate as its source", page)
		}
	}
}

// Every example of a page that is a whole object of Squall is valid, by the rules of
// squall validate.
func TestExamplesOfPagesAreValid(t *testing.T) {
	examples := 0
	for _, page := range goFiles(t, ".md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range anExample.FindAllStringSubmatch(string(text), -1) {
			yaml := unindented(block[1], block[2])
			if !strings.Contains(yaml, "apiVersion: chaos.squall.dev/") {
				continue
			}
			documents := manifest.Read(page, []byte(yaml))
			manifest.Check(documents, manifest.Rules{Now: time.Now(), ChaosNamespace: "squall-chaos"})
			for _, d := range documents {
				examples++
				if len(d.Problems) > 0 {
					t.Errorf("%s: %s: %s", page, d, strings.Join(d.Problems, "; "))
				}
			}
		}
	}
	if examples < 30 {
		t.Fatalf("%d examples were found: the test would prove little", examples)
	}
}

// anExample is a fenced block of YAML, with the indentation of its fence.
var anExample = regexp.MustCompile("(?ms)^([ ]*)```yaml\n(.*?)^[ ]*```$")

// unindented removes the indentation of a block in a list.
func unindented(by, block string) string {
	return strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n"+by, "\n"), "\n")
}
