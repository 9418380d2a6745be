package main

import (
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	// markdownLink is a link of a page to a file, without its anchor.
	markdownLink = regexp.MustCompile(`\]\(([^)#\s:]+)(?:#[^)\s]*)?\)`)
	// htmlLink is what a built page links to, shows or loads.
	htmlLink = regexp.MustCompile(`(?:href|src)="([^"]+)"`)
	htmlID   = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
)

// follow follows every link of a built site. A page that would load something from
// another machine is an error too: the site is read where there is no network.
func follow(site string) (pages, links int, err error) {
	targets := map[string]map[string]bool{} // by page: its anchors
	var wrong []error
	walk := func(visit func(path, text string)) error {
		return filepath.WalkDir(site, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".html") || entry.Name() == "404.html" {
				return err
			}
			text, err := os.ReadFile(path)
			visit(path, string(text))
			return err
		})
	}
	err = walk(func(path, text string) {
		targets[path] = map[string]bool{"": true}
		for _, id := range htmlID.FindAllStringSubmatch(text, -1) {
			targets[path][html.UnescapeString(id[1])] = true
		}
	})
	if err != nil {
		return 0, 0, err
	}
	err = walk(func(path, text string) {
		for _, link := range htmlLink.FindAllStringSubmatch(text, -1) {
			links++
			if problem := lead(path, html.UnescapeString(link[1]), strings.HasPrefix(link[0], "src"), targets); problem != "" {
				wrong = append(wrong, fmt.Errorf("%s: %s: %s", path, link[1], problem))
			}
		}
	})
	return len(targets), links, errors.Join(append(wrong, err)...)
}

// lead returns the error of a page's link, or nothing.
func lead(page, link string, loaded bool, targets map[string]map[string]bool) string {
	to, err := url.Parse(link)
	if err != nil {
		return err.Error()
	}
	if to.Scheme != "" || to.Host != "" {
		if loaded {
			return "it is loaded from another machine"
		}
		return ""
	}
	file := page
	if to.Path != "" {
		file = filepath.Join(filepath.Dir(page), to.Path)
	}
	info, err := os.Stat(file)
	if err == nil && info.IsDir() {
		file = filepath.Join(file, "index.html")
		_, err = os.Stat(file)
	}
	if err != nil {
		return "there is no such file"
	}
	if anchors, isPage := targets[file]; isPage && !anchors[to.Fragment] {
		return "that page has no such anchor"
	}
	return ""
}
