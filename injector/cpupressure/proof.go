//go:build linux

package cpupressure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// tick is the unit of times in /proc, USER_HZ, the same on every machine.
	tick = 10 * time.Millisecond
	// leastMeasured is the shortest time over which use is measured.
	leastMeasured = 500 * time.Millisecond
	// leastShare is how much of the requested load must be burned, in percent. The target, or
	// its quota, took the rest: both are pressure.
	leastShare = 1
)

// use is the processor time of burners up to a moment.
type use struct {
	at  time.Time
	had map[int]time.Duration // by process
}

// Prove measures the processor time of burners since its last call.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	load, err := loadOf(i.params.Count)
	if err != nil {
		return "", "", err
	}
	now := use{time.Now(), map[int]time.Duration{}}
	var burned time.Duration
	asked := 0.0
	for _, pid := range i.burners.Running() {
		had, cpus, err := measure(i.proc, pid)
		if err != nil {
			continue // it has just ended
		}
		now.had[pid] = had
		burned += had - i.used.had[pid]
		asked += float64(cpus) * float64(load.busy(cpus)) / float64(period)
	}
	if len(now.had) == 0 {
		return "", "", errors.New("no burner runs")
	}
	elapsed := now.at.Sub(i.used.at)
	if i.used.had == nil || elapsed < leastMeasured {
		if i.used.had == nil {
			i.used = now
		}
		return v1beta1.EffectNothingMatchedYet, "what the burners use is measured next", nil
	}
	i.used = now
	cores := burned.Seconds() / elapsed.Seconds()
	evidence := fmt.Sprintf("burners used %.2f of %.2f processors asked for, over %s", cores, asked, elapsed.Round(100*time.Millisecond))
	if cores*100 < asked*leastShare {
		return v1beta1.EffectIneffective, evidence, nil
	}
	return v1beta1.EffectProven, evidence, nil
}

// measure returns the processor time of a process, and on how many processors it may run.
func measure(proc string, pid int) (time.Duration, int, error) {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := bytes.Cut(stat, []byte(") ")) // the name may contain any character
	fields := bytes.Fields(rest)
	if len(fields) < 13 {
		return 0, 0, fmt.Errorf("process %d: stat has %d fields", pid, len(fields))
	}
	var had time.Duration
	for _, field := range fields[11:13] { // utime, stime
		ticks, err := strconv.ParseInt(string(field), 10, 64)
		if err != nil {
			return 0, 0, err
		}
		had += time.Duration(ticks) * tick
	}
	var cpus unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &cpus); err != nil {
		return 0, 0, err
	}
	return had, cpus.Count(), nil
}
