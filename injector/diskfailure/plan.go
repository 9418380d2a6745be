//go:build linux

package diskfailure

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// defaultErrno is the error of an open if the disruption sets none.
const defaultErrno = "ENOENT"

// errnos are the supported errors, by the names of the API.
var errnos = map[string]unix.Errno{
	"EACCES": unix.EACCES, "EDQUOT": unix.EDQUOT, "EEXIST": unix.EEXIST, "EFAULT": unix.EFAULT,
	"EFBIG": unix.EFBIG, "EINTR": unix.EINTR, "EISDIR": unix.EISDIR, "ELOOP": unix.ELOOP,
	"EMFILE": unix.EMFILE, "ENAMETOOLONG": unix.ENAMETOOLONG, "ENFILE": unix.ENFILE, "ENODEV": unix.ENODEV,
	"ENOENT": unix.ENOENT, "ENOMEM": unix.ENOMEM, "ENOSPC": unix.ENOSPC, "ENOTDIR": unix.ENOTDIR,
	"ENXIO": unix.ENXIO, "EOVERFLOW": unix.EOVERFLOW, "EPERM": unix.EPERM, "EROFS": unix.EROFS,
	"ETXTBSY": unix.ETXTBSY, "EWOULDBLOCK": unix.EWOULDBLOCK,
}

// plan has the parameters in their final form.
type plan struct {
	paths   []string // absolute prefixes
	errno   string
	percent int // of the opens, 1 to 100
}

// planOf reads the parameters. Blanks around a path do not count.
func planOf(params v1beta1.DiskFailure) (plan, error) {
	p := plan{errno: defaultErrno, percent: 100}
	for _, prefix := range params.Paths {
		prefix = strings.TrimSpace(prefix)
		if !path.IsAbs(prefix) {
			return plan{}, fmt.Errorf("path %q: want an absolute path", prefix)
		}
		p.paths = append(p.paths, prefix)
	}
	if len(p.paths) == 0 {
		return plan{}, errors.New("paths is empty: want at least one")
	}
	if params.OpenatSyscall != nil {
		p.errno = params.OpenatSyscall.ExitCode
	}
	if _, known := errnos[p.errno]; !known {
		return plan{}, fmt.Errorf("openat.exitCode %q: want one of %s", p.errno, names(slices.Collect(maps.Keys(errnos))))
	}
	if params.Probability.Given() {
		percent, err := params.Probability.Value()
		if err != nil {
			return plan{}, fmt.Errorf("probability %w", err)
		}
		p.percent = percent
	}
	return p, nil
}

// names lists errors for people, in alphabetical order.
func names(errnos []string) string { return strings.Join(slices.Sorted(slices.Values(errnos)), ", ") }

// share selects a percentage of opens, spread evenly: of any n opens in a row it fails
// n*percent/100, give or take less than one.
type share struct{ percent, sum int }

func (s *share) next() bool {
	if s.sum += s.percent; s.sum < 100 {
		return false
	}
	s.sum -= 100
	return true
}

// below is true if a file's path begins with one of the prefixes: as a string, so that
// /data is a prefix of /database too.
func below(prefixes []string, file string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(file, prefix) })
}

// within returns a path as seen by a process with the root at root; empty for one that is
// not below it.
func within(root, file string) string {
	if root == "/" {
		return file
	}
	rest, found := strings.CutPrefix(file, root)
	switch {
	case !found || rest != "" && rest[0] != '/':
		return ""
	case rest == "":
		return "/"
	}
	return rest
}
