// Command site builds the documents of the repository into a site of static files,
// bin/site, by Debian's MkDocs with the theme Material.
//
// The source is rewritten as bin/site-source, in which every page and every file
// that a page links to has its path in the repository: so links mean the same
// here, in a checkout and on a forge. A link that leads nowhere is an error.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/squall-chaos/squall/hack/debian"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := build(ctx, ".."); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// warnings are the lines of mkdocs's output that name what is wrong; the others are
// progress and what its libraries find deprecated in each other.
var warnings = regexp.MustCompile(`(?m)^.*(?:WARNING|ERROR) .*$`)

// build makes the site of a checkout.
func build(ctx context.Context, root string) error {
	logf := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if err := debian.Install(ctx, logf, debian.ForSite...); err != nil {
		return err
	}
	source, site := filepath.Join(root, "bin/site-source"), filepath.Join(root, "bin/site")
	if err := errors.Join(os.RemoveAll(source), os.RemoveAll(site)); err != nil {
		return err
	}
	if err := layOut(ctx, root, source); err != nil {
		return fmt.Errorf("lay out %s: %w", source, err)
	}
	// --quiet would also hide the warnings for which --strict refuses the site.
	output, err := exec.CommandContext(ctx, "mkdocs", "build", "--strict", "--config-file", "site/mkdocs.yml").CombinedOutput()
	if err != nil {
		return fmt.Errorf("mkdocs build: %w\n%s", err, strings.Join(warnings.FindAllString(string(output), -1), "\n"))
	}
	pages, links, err := follow(site)
	if err != nil {
		return err
	}
	logf("bin/site: %d pages, %d links between them and their files, all of which lead somewhere", pages, links)
	return nil
}

// layOut copies the pages, what they link to, and how they look, into the source.
func layOut(ctx context.Context, root, source string) error {
	listed, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "*.md").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	if err := copyFile(root, source, "hack/site/site.css"); err != nil {
		return err
	}
	for _, page := range strings.Fields(string(listed)) {
		if err := copyFile(root, source, page); err != nil {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			return err
		}
		for _, link := range markdownLink.FindAllStringSubmatch(string(text), -1) {
			if err := copyLinked(root, source, filepath.Join(filepath.Dir(page), link[1])); err != nil {
				return fmt.Errorf("%s: %w", page, err)
			}
		}
	}
	return nil
}

// copyLinked copies what a page links to. A directory becomes a page that lists
// what is in it, unless it has one.
func copyLinked(root, source, path string) error {
	info, err := os.Stat(filepath.Join(root, path))
	if errors.Is(err, os.ErrNotExist) || path == "." {
		return nil // text that looks like a link; what is one, follow finds missing
	}
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return copyFile(root, source, path)
	}
	entries, err := os.ReadDir(filepath.Join(root, path))
	if err != nil {
		return err
	}
	list := "# " + path + "\n\n"
	for _, entry := range entries {
		if err := copyLinked(root, source, filepath.Join(path, entry.Name())); err != nil {
			return err
		}
		link := entry.Name()
		if entry.IsDir() {
			link += "/README.md"
		}
		list += "- [" + entry.Name() + "](" + link + ")\n"
	}
	index := filepath.Join(source, path, "README.md")
	if _, err := os.Stat(index); err == nil {
		return nil
	}
	return os.WriteFile(index, []byte(list), 0o644)
}

func copyFile(root, source, path string) error {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		return err
	}
	to := filepath.Join(source, path)
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o644))
}
