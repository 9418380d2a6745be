package ui

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// patience is how long a person waits for something before it is wrong. On an
// idle machine the longest is half a minute, until the disruption is stuck.
const patience = 90 * time.Second

// browser is a window of a real browser. It finds things as a screen reader
// does, by role and name, so that a new look of the page changes nothing.
type browser struct {
	t     *testing.T
	ctx   context.Context
	shots string // directory for screenshots
	taken int
}

func newBrowser(t *testing.T, program, shots string) *browser {
	t.Helper()
	if shots != "" {
		if err := os.MkdirAll(shots, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()),
	}
	for _, name := range []string{"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
		"disable-background-networking", "disable-component-update", "disable-sync", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	t.Cleanup(func() { end(); stop() })
	b := &browser{t: t, ctx: ctx, shots: shots}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1440, 1240)); err != nil {
		t.Fatalf("start %s: %v", program, err)
	}
	return b
}

// chromium finds the browser's program.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if program, err := exec.LookPath(name); err == nil {
			return program, nil
		}
	}
	return "", errors.New("no chromium on this machine: apt-get install chromium")
}

func (b *browser) open(address string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(address)); err != nil {
		b.t.Fatalf("open %s: %v", address, err)
	}
}

// see waits until all texts are on the page.
func (b *browser) see(texts ...string) {
	b.t.Helper()
	eventually(b.t, func() string {
		shown, err := b.text()
		if err != nil {
			return err.Error()
		}
		for _, text := range texts {
			if !strings.Contains(shown, text) {
				return fmt.Sprintf("the page does not show %q; it shows:\n%s", text, shown)
			}
		}
		return ""
	})
}

// seeAfresh is see on a page that does not follow what changes: it is loaded
// again for as long as it shows the stale text.
func (b *browser) seeAfresh(stale, text string) {
	b.t.Helper()
	eventually(b.t, func() string {
		shown, err := b.text()
		if err != nil {
			return err.Error()
		}
		if strings.Contains(shown, text) {
			return ""
		}
		if strings.Contains(shown, stale) {
			if err := chromedp.Do(b.ctx, chromedp.Reload()); err != nil {
				return err.Error()
			}
		}
		return fmt.Sprintf("the page does not show %q; it shows:\n%s", text, shown)
	})
}

// text is what the page shows, with its frames and drawings.
func (b *browser) text() (string, error) {
	return chromedp.Run(b.ctx, chromedp.Evaluate[string](inFrames(`[d.body.innerText, ...[...d.querySelectorAll("svg text")].map(t => t.textContent)]`)+`.join("\n")`))
}

// items are the items of all lists on the page.
func (b *browser) items() []string {
	b.t.Helper()
	items, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](inFrames(`[...d.querySelectorAll("li")].map(i => i.innerText.trim())`)))
	if err != nil {
		b.t.Fatalf("read the lists: %v", err)
	}
	return items
}

// codeBlocks are the texts that the page offers to copy.
func (b *browser) codeBlocks() []string {
	b.t.Helper()
	blocks, err := chromedp.Run(b.ctx, chromedp.Evaluate[[]string](inFrames(`[...d.querySelectorAll("pre")].map(p => p.innerText.trim())`)))
	if err != nil {
		b.t.Fatalf("read the code blocks: %v", err)
	}
	return blocks
}

// inFrames is a script that joins what an expression gives for every frame's
// document d: the pages show markdown in frames.
func inFrames(expression string) string {
	return `[document, ...[...document.querySelectorAll("iframe")].map(f => f.contentDocument)].filter(d => d && d.body).flatMap(d => ` + expression + `)`
}

// click waits for the one thing of that role and name and clicks it.
func (b *browser) click(role, name string) {
	b.t.Helper()
	eventually(b.t, func() string {
		wrong, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (string, error) {
			node, wrong, err := find(ctx, t, role, name)
			if wrong != "" || err != nil {
				return wrong, err
			}
			return clickNode(ctx, t, node)
		})
		if err != nil {
			return fmt.Sprintf("click %s %q: %v", role, name, err)
		}
		return wrong
	})
}

// find returns the node whose name is, or else begins with, the name, or what
// is there instead.
func find(ctx context.Context, t *chromedp.Target, role, name string) (cdp.BackendNodeID, string, error) {
	document, err := cdp.Call(ctx, t, dom.GetDocument, dom.GetDocumentParams{})
	if err != nil {
		return 0, "", err
	}
	query := accessibility.QueryAXTreeParams{BackendNodeID: document.Root.BackendNodeID, Role: role}
	found, err := cdp.Call(ctx, t, accessibility.QueryAXTree, query)
	if err != nil {
		return 0, "", err
	}
	var names []string
	var close cdp.BackendNodeID
	for _, node := range found.Nodes {
		var label string
		if node.Ignored || node.Name == nil || json.Unmarshal(node.Name.Value, &label) != nil {
			continue
		}
		label = strings.TrimSpace(label)
		if label == name {
			return node.BackendDOMNodeID, "", nil
		}
		if close == 0 && strings.HasPrefix(label, name) {
			close = node.BackendDOMNodeID
		}
		names = append(names, label)
	}
	if close != 0 {
		return close, "", nil
	}
	return 0, fmt.Sprintf("no %s is called %q; there are %q", role, name, names), nil
}

// clickNode returns what is in the way of a click.
func clickNode(ctx context.Context, t *chromedp.Target, node cdp.BackendNodeID) (string, error) {
	if _, err := cdp.Call(ctx, t, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: node}); err != nil {
		return "", err
	}
	shape, err := cdp.Call(ctx, t, dom.GetContentQuads, dom.GetContentQuadsParams{BackendNodeID: node})
	if err != nil {
		return "", err
	}
	if len(shape.Quads) == 0 {
		return "it is not to be seen", nil
	}
	q := shape.Quads[0]
	_, err = chromedp.MouseClickXY((q[0]+q[4])/2, (q[1]+q[5])/2)(ctx, t)
	return "", err
}

// replace puts text into a box in place of what is in it, as pasting does. The
// dialog formats text of one line when it loses the focus, which moves the
// button that is about to be clicked: give it several lines.
func (b *browser) replace(box, text string) {
	b.t.Helper()
	b.click("textbox", box)
	_, err := chromedp.Run(b.ctx, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		if _, err := chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl))(ctx, t); err != nil {
			return cdp.Empty{}, err
		}
		return cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
	})
	if err != nil {
		b.t.Fatalf("put %s into %s: %v", text, box, err)
	}
	b.see(strings.Split(text, "\n")...)
}
