// Package revision finds the commit of a measurement.
package revision

import (
	"fmt"
	"os/exec"
	"strings"
)

// Of returns the commit of the repository around folder, for figures in a
// document: readers must find it. A commit outside the branch main may be rebased
// away, and uncommitted files belong to no commit: then Of refuses with keep, and
// warns without. Files written from the figures, by paths from the top of the
// repository, may have changed.
func Of(folder string, keep bool, written ...string) (string, error) {
	commit, err := Git(folder, "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return "", err
	}
	look := []string{"status", "--porcelain", "--", ":(top)"}
	for _, path := range written {
		look = append(look, ":(top,exclude)"+path)
	}
	changed, err := Git(folder, look...)
	if err != nil {
		return "", err
	}
	kept, err := Git(folder, "for-each-ref", "--contains", "HEAD", "--format=%(refname)", "refs/heads/main", "refs/remotes/*/main")
	if err != nil {
		return "", err
	}
	switch {
	case changed != "" && keep:
		return "", fmt.Errorf("figures of files that are in no commit are not written into the document: commit first\n%s", changed)
	case kept == "" && keep:
		return "", fmt.Errorf("figures of commit %s are not written into the document, it is not in branch main: merge it first", commit)
	case changed != "":
		return commit + " with changes that are in no commit", nil
	}
	return commit, nil
}

// Git runs git in a folder and returns what it printed.
func Git(folder string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", folder}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
