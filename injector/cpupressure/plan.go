//go:build linux

package cpupressure

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// period is one cycle of burning and resting: short enough to count against the usual quota
// period of 100 ms, long enough for the clock to be exact.
const period = 100 * time.Millisecond

// load is how much is burned: a percentage of every allowed CPU, or a number of cores
// spread evenly over them. Exactly one is not zero.
type load struct {
	percent int
	cores   int
}

// loadOf reads the parameter count; nil is all of every allowed CPU.
func loadOf(count *intstr.IntOrString) (load, error) {
	if count == nil {
		return load{percent: 100}, nil
	}
	return parseLoad(count.String())
}

// parseLoad reads what String writes: "50%" or a number of cores.
func parseLoad(text string) (load, error) {
	digits, isPercent := strings.CutSuffix(text, "%")
	value, err := strconv.Atoi(digits)
	if err != nil {
		return load{}, fmt.Errorf("count %q: want a number of cores such as 2, or a percentage such as \"50%%\"", text)
	}
	if isPercent && (value < 1 || value > 100) {
		return load{}, fmt.Errorf("count %q: want 1%% to 100%%", text)
	}
	if value < 1 {
		return load{}, fmt.Errorf("count %q: want at least 1 core", text)
	}
	if isPercent {
		return load{percent: value}, nil
	}
	return load{cores: value}, nil
}

// String writes the load in the form that parseLoad reads.
func (l load) String() string {
	if l.percent > 0 {
		return strconv.Itoa(l.percent) + "%"
	}
	return strconv.Itoa(l.cores)
}

// busy is the part of each period that is burned on each of the allowed CPUs. More cores
// than allowed burn all of every allowed CPU.
func (l load) busy(allowed int) time.Duration {
	if l.percent > 0 {
		return period * time.Duration(l.percent) / 100
	}
	return period * time.Duration(min(l.cores, allowed)) / time.Duration(allowed)
}

// parseCPUList reads the kernel's list format, such as "0-3,8".
func parseCPUList(list string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if errFrom != nil || errTo != nil || from > to {
			return nil, fmt.Errorf("CPU list %q: want a form such as 0-3,8", list)
		}
		for cpu := from; cpu <= to; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}

// allowedList returns the CPU list of a /proc/<pid>/status.
func allowedList(status string) (string, error) {
	for line := range strings.Lines(status) {
		if list, found := strings.CutPrefix(line, "Cpus_allowed_list:"); found {
			return strings.TrimSpace(list), nil
		}
	}
	return "", fmt.Errorf("no Cpus_allowed_list in the process status")
}
