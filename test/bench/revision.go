package bench

import (
	"fmt"
	"os/exec"
	"strings"
)

// What a benchmark writes, and so may have changed since its commit.
var written = []string{":(top,exclude)docs/bench.md", ":(top,exclude)docs/images/bench.svg"}

// revision names the commit that the repository around folder is at, for
// figures in the document: whoever reads them must find it. A commit that is
// not in the branch main may be rebased away, and files that are in no commit
// are known to nobody: then keep is refused, and else it is said.
func revision(folder string, keep bool) (string, error) {
	commit, err := git(folder, "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return "", err
	}
	changed, err := git(folder, append([]string{"status", "--porcelain", "--", ":(top)"}, written...)...)
	if err != nil {
		return "", err
	}
	kept, err := git(folder, "for-each-ref", "--contains", "HEAD", "--format=%(refname)", "refs/heads/main", "refs/remotes/*/main")
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

func git(folder string, args ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", folder}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
