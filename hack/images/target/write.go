package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// writer overwrites the first megabytes of a file for ever, each write forced
// to the disk, at most mostPerSecond, and knows how fast it is.
type writer struct {
	path   string
	direct bool // past the page cache

	mu      sync.Mutex
	written int64
	ring    [windowSeconds]int64 // bytes of each of the last seconds, by second
	second  int64
	failure string
}

const (
	windowSeconds = 3
	fileBytes     = 16 << 20
	alignment     = 4096 // of buffer, offset and length with O_DIRECT
	// mostPerSecond is more than any disruption lets through, and little enough for
	// many targets to share a disk.
	mostPerSecond = 4 << 20
)

// startWriter writes in the background.
func startWriter(path string, block int, direct bool) (*writer, error) {
	if block <= 0 || block%alignment != 0 {
		return nil, fmt.Errorf("write block of %d bytes: want a multiple of %d", block, alignment)
	}
	w := &writer{path: path, direct: direct}
	go w.run(aligned(block))
	return w, nil
}

// run tries again for ever: a target lives through a disruption of its disk, also one
// that is there when it starts.
func (w *writer) run(buffer []byte) {
	pause := time.Second * time.Duration(len(buffer)) / mostPerSecond
	for {
		f, err := w.open()
		for offset := int64(0); err == nil; offset = (offset + int64(len(buffer))) % fileBytes {
			var n int
			next := time.Now().Add(pause)
			if n, err = f.WriteAt(buffer, offset); err == nil {
				err = f.Sync()
			}
			w.count(n, err)
			time.Sleep(time.Until(next))
		}
		w.count(0, err)
		f.Close()                          // nil if it could not be opened
		time.Sleep(100 * time.Millisecond) // a failing disk shall not take the processor too
	}
}

// open falls back to the page cache where the file system has no O_DIRECT.
func (w *writer) open() (*os.File, error) {
	const flags = os.O_CREATE | os.O_WRONLY
	if w.direct {
		f, err := os.OpenFile(w.path, flags|syscall.O_DIRECT, 0o644)
		if !errors.Is(err, syscall.EINVAL) {
			return f, err
		}
		w.mu.Lock()
		w.direct = false
		w.mu.Unlock()
	}
	return os.OpenFile(w.path, flags, 0o644)
}

func (w *writer) count(n int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance(time.Now().Unix())
	w.written += int64(n)
	w.ring[w.second%windowSeconds] += int64(n)
	w.failure = ""
	if err != nil {
		w.failure = err.Error()
	}
}

// advance empties the seconds that have passed.
func (w *writer) advance(now int64) {
	if now-w.second > windowSeconds {
		w.second = now - windowSeconds
	}
	for w.second < now {
		w.second++
		w.ring[w.second%windowSeconds] = 0
	}
}

// stats averages over the full seconds of the window; the running one counts
// nothing yet.
func (w *writer) stats() map[string]any {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advance(time.Now().Unix())
	sum := int64(0)
	for second := w.second - windowSeconds + 1; second < w.second; second++ {
		sum += w.ring[(second+windowSeconds)%windowSeconds]
	}
	return map[string]any{
		"file": w.path, "direct": w.direct, "bytes": w.written,
		"bytesPerSecond": sum / (windowSeconds - 1), "error": w.failure,
	}
}

// aligned returns a buffer of the given length that starts at a multiple of the
// alignment.
func aligned(length int) []byte {
	raw := make([]byte, length+alignment)
	skip := alignment - int(uintptr(unsafe.Pointer(&raw[0]))%alignment)
	return raw[skip : skip+length]
}
