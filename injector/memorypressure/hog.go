//go:build linux

package memorypressure

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/child"
)

// HogCommand is the hidden subcommand of the injector that runs Hog.
const HogCommand = "hog"

// interval is how often a hog reads the use. A target that allocates memory gets it before
// its limit is reached, unless it takes a twentieth of the limit within one interval.
const interval = 50 * time.Millisecond

// Hog is the process that fills memory, a child of the injector. It does nothing until a
// byte arrives on its standard input, so that it can be put into the target's cgroup first.
// Then it reports its start in a line on its standard output, and in another one that the
// goal is reached.
//
// Hog ends without an error when ctx is done, or when its standard input is closed, as by
// the injector's end. It also ends with the process behind the pidfd in file descriptor 3.
// args are the mark that lets Clean and Audit find it, and a plan with its cgroup.
func Hog(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want a mark and a plan; it is started by the injector, not by hand", HogCommand)
	}
	p, dir, err := parseArgument(args[1])
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1) // in version 2 its threads count for the target
	child.Sacrifice()
	if !child.AwaitRelease() {
		return nil
	}
	err = hold(ctx, p, dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		if _, gone := os.Stat(dir); gone != nil {
			return nil // the cgroup was removed with the target
		}
	}
	return err
}

// hold keeps the memory in use at the goal until the hog has to end.
func hold(ctx context.Context, p plan, dir string) error {
	levels, err := readLevels(dir)
	if err != nil {
		return err
	}
	fill, err := newFilling(levels[len(levels)-1].limit)
	if err != nil {
		return err
	}
	began, start := time.Now(), binding(levels).used
	fmt.Println("filling")
	for full := false; ctx.Err() == nil; {
		if levels, err = readLevels(dir); err != nil {
			return err
		}
		by := change(fill.held, p.goal(binding(levels).limit, start, time.Since(began)), levels)
		if err := fill.by(by); err != nil {
			return err
		}
		wait := interval
		switch {
		case by > 0 && p.ramp == 0:
			wait = 0 // the missing part is added at once
		case !full && p.ramp <= time.Since(began):
			fmt.Println("full")
			full = true
		}
		if child.Ended(wait) {
			return nil
		}
	}
	return nil
}

// filling is memory that is only in use: its first held bytes.
type filling struct {
	memory []byte
	held   int64
}

// newFilling reserves addresses for as much as the node has, and no memory.
func newFilling(limit int64) (*filling, error) {
	memory, err := unix.Mmap(-1, 0, int(limit), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of addresses: %w", limit, err)
	}
	// A released part of a huge page may stay in use. EINVAL: there are no huge pages.
	_ = unix.Madvise(memory, unix.MADV_NOHUGEPAGE)
	return &filling{memory: memory}, nil
}

// by uses this many bytes more, or releases this many.
func (f *filling) by(bytes int64) error {
	until := min(f.held+bytes, int64(len(f.memory)))
	for at := f.held; at < until; at += pageSize {
		f.memory[at] = 1 // only a written page uses memory
	}
	if until < f.held {
		if err := unix.Madvise(f.memory[until:f.held], unix.MADV_DONTNEED); err != nil {
			return fmt.Errorf("free %d bytes: %w", f.held-until, err)
		}
	}
	f.held = until
	return nil
}
