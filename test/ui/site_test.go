//go:build site

package ui

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestSite reads the site of the documents: the front page, the page of a kind by
// the navigation, its figures, and the results of a search. `make site` built it.
func TestSite(t *testing.T) {
	site := os.Getenv("SQUALL_SITE")
	if _, err := os.Stat(site + "/index.html"); err != nil {
		t.Fatalf("SQUALL_SITE=%q has no site: run make site", site)
	}
	program, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(site)))
	t.Cleanup(server.Close)
	b := newBrowser(t, program, cmp.Or(*shots, t.TempDir()))

	b.open(server.URL)
	b.see(headings(t, "README.md")...)
	b.see("Getting started", "Runbooks")
	b.drawn()
	b.shoot("site-front")
	b.click("link", "Concepts")
	b.see(headings(t, "docs/concepts.md")...)
	b.drawn()
	b.shoot("site-concepts")
	b.open(server.URL + "/docs/kinds/")
	b.see(headings(t, "docs/kinds/README.md")...)
	b.drawn()
	b.namesInOnePiece()
	b.shoot("site-kinds")
	b.open(server.URL + "/docs/runbooks.html#squallnoworker")
	b.see("SquallNoWorker")
	b.shoot("site-runbook")
	b.open(server.URL + "/docs/comparison.html")
	b.see(headings(t, "docs/comparison.md")...)
	b.shoot("site-comparison")
	b.searchFor("emergency stop")
	b.see("matching documents", "Stop everything")
	b.shoot("site-search")
}

// headings are the headings of a page of the repository, which its page of the site
// must show, whatever the words are today.
func headings(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, heading := range regexp.MustCompile(`(?m)^##? (.+)$`).FindAllStringSubmatch(string(text), -1) {
		found = append(found, strings.ReplaceAll(heading[1], "`", ""))
	}
	if len(found) == 0 {
		t.Fatalf("%s has no heading", page)
	}
	return found
}

// drawn waits until every picture of the page is loaded and seen, and fails for one that is not.
func (b *browser) drawn() {
	b.t.Helper()
	eventually(b.t, func() string {
		missing, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](
			`[...document.images].filter(i => !i.complete || i.naturalWidth === 0 || i.clientWidth < 20).map(i => i.src)`))
		if err != nil {
			return err.Error()
		}
		if len(missing) > 0 {
			return "pictures are not drawn: " + missing[0]
		}
		return ""
	})
}

// namesInOnePiece fails for a word in a table, such as a field's name, that is broken
// into two lines.
func (b *browser) namesInOnePiece() {
	b.t.Helper()
	broken, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](
		`[...document.querySelectorAll('td code, th code')].filter(c => /^\w+$/.test(c.innerText) && c.getClientRects().length > 1).map(c => c.innerText)`))
	if err != nil || len(broken) > 0 {
		b.t.Errorf("words broken in tables: %q, %v, want none", broken, err)
	}
}

// searchFor types into the site's field of search.
func (b *browser) searchFor(query string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Click(`.md-search__input`), chromedp.SendKeys(`.md-search__input`, query)); err != nil {
		b.t.Fatalf("search for %q: %v", query, err)
	}
}
