//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// hold is the least an injector could do: it writes the ready file at once and
// waits to be ended. Bare pods that run it are what chaos pods are measured by.
func hold(ctx context.Context, _ []string) (any, error) {
	if err := os.WriteFile(v1beta1.ReadyFile, nil, 0o644); err != nil {
		return nil, err
	}
	<-ctx.Done()
	return "ended", nil
}

// heal kills an injector and returns how long its disruption's journals then stay
// on this node: they are removed when all is undone.
func heal(ctx context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("heal", flag.ContinueOnError)
	uid := flags.String("disruption", "", "`UID` of the disruption")
	container := flags.String("container", "", "`ID` of the injector's container")
	patience := flags.Duration("for", time.Minute, "how long to wait")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	pattern := filepath.Join(journals, *uid+"_*.json")
	if files, err := filepath.Glob(pattern); err != nil || *uid == "" || len(files) == 0 {
		return nil, fmt.Errorf("no journal of disruption %q is in %s: %v", *uid, journals, err)
	}
	began := time.Now()
	if _, err := kill(ctx, []string{"--name", "injector", "--container", *container}); err != nil {
		return nil, err
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for over := time.After(*patience); ; {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return map[string]float64{"seconds": time.Since(began).Seconds()}, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over:
			return nil, fmt.Errorf("after %s the journals %v are still there", *patience, files)
		case <-look.C:
		}
	}
}

// busy returns how many processors of this machine were at work over a time, and
// which machine it is: nodes may share one.
func busy(ctx context.Context, args []string) (any, error) {
	_, length, err := parse("busy", args)
	if err != nil {
		return nil, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil, err
	}
	before, err := workTime()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(length):
	}
	after, err := workTime()
	if err != nil {
		return nil, err
	}
	return map[string]any{"machine": strings.TrimSpace(string(boot)), "processors": (after - before).Seconds() / time.Since(began).Seconds(), "of": runtime.NumCPU()}, nil
}

// workTime is what all processors together have worked since the machine began.
func workTime() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseWork(string(text))
}

// parseWork reads the first line of /proc/stat: user, nice, system, idle, iowait,
// irq and softirq, in hundredths of a second. Time that the machine's host took
// away (steal) is not work here.
func parseWork(stat string) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks int64
	for _, i := range []int{1, 2, 3, 6, 7} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat begins with %q: %w", line, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
