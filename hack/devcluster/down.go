package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
	"github.com/squall-chaos/squall/hack/supervise"
)

// farewell is how long the supervisor gets to end everything by itself.
const farewell = 25 * time.Second

func down(_ context.Context, args []string) error {
	flags, dir := flagSet("down", "")
	wipe := flags.Bool("wipe", false, "delete what the cluster stored, too")
	if _, err := parse(flags, args, 0, 0); err != nil {
		return err
	}
	if err := needHost(); err != nil {
		return err
	}
	s := newSteps()
	if _, err := os.Stat(*dir); errors.Is(err, fs.ErrNotExist) {
		s.logf("there is no cluster in %s", *dir)
		return nil
	}
	lock, err := cluster.Lock(filepath.Join(*dir, "command.lock"), true)
	if err != nil {
		return err
	}
	defer lock.Close()
	c, err := plan(*dir)
	if err != nil {
		// The directory, not the plan, identifies processes and cgroups.
		if c, err = cluster.New(*dir, nil); err != nil {
			return err
		}
	}
	if err := stop(c); err != nil {
		return err
	}
	s.logf("down: no process, cgroup or link is left")
	if *wipe {
		return wipeState(s, c)
	}
	return nil
}

// stop ends the supervisor, if there is one, and removes what it or an earlier
// one left. It is idempotent.
func stop(c *cluster.Cluster) error {
	deadline := time.Now().Add(farewell)
	stopped := 0
	for pid := c.Supervisor(); pid != 0; pid = c.Supervisor() {
		if pid > 0 && pid != stopped {
			_ = syscall.Kill(pid, syscall.SIGTERM) // gone already is as good
			stopped = pid
		}
		if pid > 0 && time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // all it started dies with it
		}
		time.Sleep(20 * time.Millisecond)
	}
	return supervise.Clean(c)
}

// wipeState deletes everything but the lock that the caller holds.
func wipeState(s steps, c *cluster.Cluster) error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("wipe the cluster's state: %w", err)
	}
	for _, entry := range entries {
		if entry.Name() == "command.lock" {
			continue
		}
		if err := os.RemoveAll(c.Path(entry.Name())); err != nil {
			return fmt.Errorf("wipe the cluster's state: %w", err)
		}
	}
	s.logf("wiped %s", c.Dir)
	return nil
}
