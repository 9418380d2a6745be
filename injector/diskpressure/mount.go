package diskpressure

import (
	"fmt"
	"strconv"
	"strings"
)

// mount is one line of a mountinfo file:
//
//	36 35 254:1 /sub /mnt/data rw,noatime shared:1 - ext4 /dev/vda1 rw,errors=continue
type mount struct {
	device  string // major:minor
	point   string
	kind    string
	source  string
	options string // of the filesystem
}

// findMount finds a mount by its number.
func findMount(table, id string) (mount, error) {
	for line := range strings.Lines(table) {
		before, after, found := strings.Cut(line, " - ")
		place, what := strings.Fields(before), strings.Fields(after)
		if !found || len(place) < 6 || len(what) < 3 || place[0] != id {
			continue
		}
		return mount{
			device: place[2], point: unescape(place[4]),
			kind: what[0], source: unescape(what[1]), options: what[2],
		}, nil
	}
	return mount{}, fmt.Errorf("mount %q is not among the target's mounts", id)
}

// mountID reads the mount's number out of a /proc/<pid>/fdinfo file.
func mountID(info string) string {
	for line := range strings.Lines(info) {
		if id, found := strings.CutPrefix(line, "mnt_id:"); found {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// upper is the directory that takes the writes of an overlay.
func (m mount) upper() (string, bool) {
	if m.kind != "overlay" {
		return "", false
	}
	for option := range strings.SplitSeq(m.options, ",") {
		if dir, found := strings.CutPrefix(option, "upperdir="); found {
			return unescape(dir), true
		}
	}
	return "", false
}

// unescape undoes the kernel's "\040" for a blank and its like.
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
