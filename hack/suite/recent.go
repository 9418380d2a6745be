package main

import (
	"io"
	"strings"
	"sync"
)

// recentBytes is how much of what was printed last is kept.
const recentBytes = 4000

// recent passes on what is written to it and keeps the end. Programs and the suite write
// to it beside each other.
type recent struct {
	to    io.Writer
	guard sync.Mutex
	kept  []byte
}

func (r *recent) Write(p []byte) (int, error) {
	r.guard.Lock()
	defer r.guard.Unlock()
	r.kept = append(r.kept, p...)
	r.kept = r.kept[max(0, len(r.kept)-recentBytes):]
	return r.to.Write(p)
}

// lines are at most the last so many that were printed, cut at 300 bytes.
func (r *recent) lines(most int) []string {
	r.guard.Lock()
	defer r.guard.Unlock()
	var lines []string
	for line := range strings.Lines(string(r.kept)) {
		line = strings.TrimSuffix(line, "\n")
		lines = append(lines, line[:min(len(line), 300)]+"\n")
	}
	return lines[max(0, len(lines)-most):]
}
