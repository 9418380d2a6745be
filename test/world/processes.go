package world

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CPU is how many seconds of processor time the test and its children have
// used, by program: where the time of a phase went.
type CPU map[string]float64

// usedCPU reads it. A process that ends while it reads is passed over.
func usedCPU() CPU {
	seconds := CPU{}
	self := strconv.Itoa(os.Getpid())
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		open, shut := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		fields := strings.Fields(string(text[shut+1:]))
		if id := strings.TrimSpace(string(text[:open])); id != self && fields[1] != self {
			continue
		}
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		seconds[string(text[open+1:shut])] += (user + system) / 100 // the kernel's USER_HZ
	}
	return seconds
}

// since is what was used after before.
func (c CPU) since(before CPU) CPU {
	spent := CPU{}
	for name, seconds := range c {
		spent[name] = seconds - before[name]
	}
	return spent
}

// Total is that of all programs.
func (c CPU) Total() (seconds float64) {
	for _, s := range c {
		seconds += s
	}
	return seconds
}

func (c CPU) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, c[name]))
	}
	return strings.Join(parts, ", ")
}

// Memory is how much of it the program holds, in bytes: now, and at most since
// it started or ForgetPeak was called.
func (p *Program) Memory() (now, peak int64) {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		p.t.Fatalf("memory of %s: %v", p.Name, err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kilobytes << 10
		case "VmHWM:":
			peak = kilobytes << 10
		}
	}
	return now, peak
}

// ForgetPeak lets the peak of Memory begin again from what is held now.
func (p *Program) ForgetPeak() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
		p.t.Fatalf("peak of memory of %s: %v", p.Name, err)
	}
}
