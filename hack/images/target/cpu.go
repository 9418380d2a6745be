package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// cpu measures how much processor time the container's cgroup uses over a time.
// The cgroup counts every process in it, including the injector's.
func cpu(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cpu", flag.ContinueOnError)
	length := flags.Duration("for", 2*time.Second, "how long to measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	before, err := cpuTaken()
	if err != nil {
		return err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(*length):
	}
	after, err := cpuTaken()
	if err != nil {
		return err
	}
	return printJSON(map[string]any{"cores": (after - before).Seconds() / time.Since(began).Seconds()})
}

// cpuTaken reads the processor time of the own cgroup, as the container sees
// it: version 1, or else version 2.
func cpuTaken() (time.Duration, error) {
	for _, file := range []string{"/sys/fs/cgroup/cpuacct/cpuacct.usage", "/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage"} {
		if content, err := os.ReadFile(file); err == nil {
			nanoseconds, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
			return time.Duration(nanoseconds), err
		}
	}
	content, err := os.ReadFile("/sys/fs/cgroup/cpu.stat")
	if err != nil {
		return 0, fmt.Errorf("read the processor time of the own cgroup: %w", err)
	}
	for line := range strings.Lines(string(content)) {
		if value, ok := strings.CutPrefix(line, "usage_usec "); ok {
			microseconds, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			return time.Duration(microseconds) * time.Microsecond, err
		}
	}
	return 0, errors.New("the own cgroup's cpu.stat has no usage_usec")
}
