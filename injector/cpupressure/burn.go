//go:build linux

package cpupressure

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/child"
)

// BurnCommand is the hidden subcommand of the injector that runs Burn.
const BurnCommand = "burn"

// Burn is the burner, a child process of the injector. It does nothing until a byte arrives
// on its standard input, so that it can be put into the target's cgroup first. Then it
// burns on every CPU it is allowed to use and reports that in one line on its standard
// output.
//
// Burn ends without an error when ctx is done, or when its standard input is closed, as by
// the injector's end. It also ends with the process behind the pidfd in file descriptor 3:
// a burner in a container's cgroup would keep the container from ending. args are the mark
// that lets Clean and Audit find it, and the load as "50%" or a number of cores.
func Burn(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s: want a mark and a load; it is started by the injector, not by hand", BurnCommand)
	}
	load, err := parseLoad(args[1])
	if err != nil {
		return err
	}
	// The cgroup v2 of a target charges it for our memory. So the burner collects no garbage,
	// whose threads are not worth it, and takes its memory before it joins.
	debug.SetGCPercent(-1)
	child.Sacrifice()
	if !child.AwaitRelease() {
		return nil
	}
	for ended := child.Ended(0); !ended && ctx.Err() == nil; {
		list, err := ownCPUs()
		if err != nil {
			return err
		}
		cpus, err := parseCPUList(list)
		if err != nil {
			return err
		}
		ended = burnAll(ctx, cpus, load.busy(len(cpus)), list)
	}
	return nil
}

func ownCPUs() (string, error) {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return "", fmt.Errorf("read the allowed CPUs: %w", err)
	}
	return allowedList(string(status))
}

// burnAll runs one burner per CPU until the burner must end, or may use other CPUs than
// those of list: a container can be resized. The two further threads are for this goroutine
// and for the timers: without them a full load would delay the end.
func burnAll(ctx context.Context, cpus []int, busy time.Duration, list string) (ended bool) {
	runtime.GOMAXPROCS(len(cpus) + 2)
	ctx, stop := context.WithCancel(ctx)
	var burners sync.WaitGroup
	for _, cpu := range cpus {
		burners.Go(func() { burnOn(ctx, cpu, busy) })
	}
	fmt.Printf("burning %v of every %v on CPUs %s\n", busy, period, list)
	for same := true; same && !ended && ctx.Err() == nil; {
		ended = child.Ended(period)
		now, err := ownCPUs()
		same = err != nil || now == list
	}
	stop()
	burners.Wait()
	return ended
}

// burnOn burns busy of every period on one CPU. It measures the time the thread really had,
// so that a target competing for the CPU has the same load. It does not make up in the next
// period for time that it did not get.
func burnOn(ctx context.Context, cpu int, busy time.Duration) {
	// The thread is never unlocked: it keeps its affinity and ends with the goroutine.
	runtime.LockOSThread()
	var only unix.CPUSet
	only.Set(cpu)
	// EINVAL means that the cpuset lost the CPU meanwhile: then burn where allowed.
	_ = unix.SchedSetaffinity(0, &only)
	seed := uint64(cpu) + 1
	for end := time.Now().Add(period); ctx.Err() == nil; end = nextEnd(end, time.Now()) {
		enough := threadTime() + busy
		for threadTime() < enough && time.Now().Before(end) && ctx.Err() == nil {
			seed = spin(seed)
		}
		time.Sleep(time.Until(end))
	}
}

// nextEnd keeps to the grid of periods, unless the thread was delayed for longer than one,
// by a quota for example.
func nextEnd(end, now time.Time) time.Time {
	if next := end.Add(period); next.After(now) {
		return next
	}
	return now.Add(period)
}

// spin keeps a CPU busy for some ten microseconds.
func spin(x uint64) uint64 {
	for range 10_000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// threadTime is the CPU time the calling thread has had.
func threadTime() time.Duration {
	var had unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &had); err != nil {
		return 0
	}
	return time.Duration(had.Nano())
}
