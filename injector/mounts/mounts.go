// Package mounts reads the kernel's tables of mounted filesystems. It promises to change
// nothing.
package mounts

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mount is one line of a mountinfo file:
//
//	36 35 254:1 /sub /mnt/data rw,noatime shared:1 - ext4 /dev/vda1 rw,errors=continue
type Mount struct {
	ID      string
	Device  string // major:minor
	Point   string
	Kind    string
	Source  string
	Options string // of the filesystem
	// Shared is true when mounts on it appear in other namespaces as well.
	Shared bool
}

// Of lists the mounts that a process sees. dir is the process's directory below /proc.
func Of(dir string) ([]Mount, error) {
	file, err := os.Open(filepath.Join(dir, "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	defer file.Close()
	return Read(file)
}

// Read reads an open mountinfo file.
func Read(file io.Reader) ([]Mount, error) {
	table, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("list the mounts: %w", err)
	}
	return Parse(string(table)), nil
}

// Parse reads a mountinfo file. It ignores malformed lines.
func Parse(table string) []Mount {
	var all []Mount
	for line := range strings.Lines(table) {
		before, after, found := strings.Cut(line, " - ")
		place, what := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 6 || len(what) < 3 {
			continue
		}
		all = append(all, Mount{
			ID: place[0], Device: place[2], Point: unescape(place[4]),
			Kind: what[0], Source: unescape(what[1]), Options: what[2],
			Shared: slices.ContainsFunc(place[6:], func(field string) bool { return strings.HasPrefix(field, "shared:") }),
		})
	}
	return all
}

// Find finds a mount by its number in a mountinfo file.
func Find(table, id string) (Mount, error) {
	for _, mount := range Parse(table) {
		if mount.ID == id {
			return mount, nil
		}
	}
	return Mount{}, fmt.Errorf("mount %q is not among the target's mounts", id)
}

// ID reads a mount's number from a /proc/<pid>/fdinfo file.
func ID(info string) string {
	for line := range strings.Lines(info) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// Upper returns the directory that receives the writes of an overlay.
func (m Mount) Upper() (string, bool) {
	if m.Kind != "overlay" {
		return "", false
	}
	for option := range strings.SplitSeq(m.Options, ",") {
		if dir, found := strings.CutPrefix(option, "upperdir="); found {
			return unescape(dir), true
		}
	}
	return "", false
}

// unescape undoes the kernel's escapes, such as "\040" for a blank.
func unescape(word string) string {
	var plain strings.Builder
	for i := 0; i < len(word); i++ {
		if word[i] == '\\' && i+4 <= len(word) {
			if code, err := strconv.ParseUint(word[i+1:i+4], 8, 8); err == nil {
				plain.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		plain.WriteByte(word[i])
	}
	return plain.String()
}
