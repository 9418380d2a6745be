package patience

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat on every architecture of Linux that Go knows.
const tick = time.Second / 100

// readUsage returns what the kernel has counted, and nothing of what it does not count:
// a system without /proc counts nothing.
func readUsage() usage {
	text, _ := os.ReadFile("/proc/stat")
	return usage{threads: readThreads("self"), stolen: stolen(string(text))}
}

// RunDelay returns how long all threads of a process together ran, and how long they
// waited for a processor while they could have run. Threads that have ended are left
// out. It fails where the kernel does not count that.
func RunDelay(pid int) (ran, delayed time.Duration, err error) {
	threads := readThreads(strconv.Itoa(pid))
	if len(threads) == 0 {
		return 0, 0, fmt.Errorf("no run delay of process %d: it has ended, or the kernel has no schedstat", pid)
	}
	for _, t := range threads {
		ran, delayed = ran+t.ran, delayed+t.delayed
	}
	return ran, delayed, nil
}

// Steal returns what the host of a virtual machine took from each of its processors
// so far, on average; 0 where the kernel does not count that.
func Steal() time.Duration { return readUsage().stolen }

func readThreads(process string) map[string]thread {
	dir := filepath.Join("/proc", process, "task")
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	threads := map[string]thread{}
	for _, task := range tasks {
		text, err := os.ReadFile(filepath.Join(dir, task.Name(), "schedstat"))
		if err != nil {
			continue // it has ended
		}
		var t thread
		if _, err := fmt.Sscan(string(text), &t.ran, &t.delayed); err == nil {
			threads[task.Name()] = t
		}
	}
	return threads
}

// stolen returns what the host took from each processor, on average, from the text of
// /proc/stat. The eighth figure of a line is steal.
func stolen(text string) time.Duration {
	var all time.Duration
	processors := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		if fields[0] != "cpu" {
			processors++
			continue
		}
		ticks, err := strconv.ParseInt(fields[8], 10, 64)
		if err != nil {
			return 0
		}
		all = time.Duration(ticks) * tick
	}
	if processors == 0 {
		return 0
	}
	return all / time.Duration(processors)
}
