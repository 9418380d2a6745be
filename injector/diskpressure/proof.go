//go:build linux

package diskpressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// traffic has the bytes that passed the limits of all cgroups up to a moment.
type traffic struct {
	at          time.Time
	read, wrote int64
}

// excess is how much more than its limit may pass between two checks, in percent: the
// kernel passes a burst at once.
const excess = 150

// Prove counts the bytes that passed the limits since Inject. The kernel counts where it
// limits: bytes that pass without a limit are not in these figures.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	if len(i.throttled) == 0 {
		return v1beta1.EffectNothingMatchedYet, "no limit is asked for, or stricter ones were there", nil
	}
	now, err := passed(i.throttled)
	if err != nil {
		return "", "", err
	}
	if i.first.at.IsZero() {
		i.first, i.last = now, now
	}
	read, wrote := now.read-i.first.read, now.wrote-i.first.wrote
	evidence := fmt.Sprintf("%s read and %s written under the limits", mebibytes(read), mebibytes(wrote))
	state := v1beta1.EffectNothingMatchedYet
	if read+wrote > 0 {
		state = v1beta1.EffectProven
	}
	elapsed := now.at.Sub(i.last.at).Seconds()
	for _, direction := range []struct {
		what   string
		limit  *int64
		passed int64
	}{
		{"read", i.params.Throttling.ReadBytesPerSec, now.read - i.last.read},
		{"written", i.params.Throttling.WriteBytesPerSec, now.wrote - i.last.wrote},
	} {
		if direction.limit == nil || *direction.limit <= 0 || elapsed < 1 {
			continue
		}
		rate := float64(direction.passed) / elapsed / float64(len(i.throttled))
		if rate*100 > float64(*direction.limit)*excess {
			state, evidence = v1beta1.EffectIneffective, fmt.Sprintf("%.0f bytes a second were %s, with a limit of %d", rate, direction.what, *direction.limit)
		}
	}
	i.last = now
	return state, evidence, nil
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

// passed adds up the counters of limits. It counts each cgroup and device once.
func passed(limits []limit) (traffic, error) {
	all, seen := traffic{at: time.Now()}, map[string]bool{}
	var errs []error
	for _, l := range limits {
		name, parse := "blkio.throttle.io_service_bytes", parseV1
		if l.key != "" {
			name, parse = "io.stat", parseV2
		}
		file := filepath.Join(filepath.Dir(l.file), name)
		if seen[file+l.device] {
			continue
		}
		seen[file+l.device] = true
		content, err := os.ReadFile(file)
		errs = append(errs, err)
		read, wrote := parse(string(content), l.device)
		all.read, all.wrote = all.read+read, all.wrote+wrote
	}
	return all, errors.Join(errs...)
}

// parseV1 reads lines such as "8:0 Read 4096".
func parseV1(content, device string) (read, wrote int64) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != device {
			continue
		}
		n, _ := strconv.ParseInt(fields[2], 10, 64)
		switch fields[1] {
		case "Read":
			read = n
		case "Write":
			wrote = n
		}
	}
	return read, wrote
}

// parseV2 reads lines such as "8:0 rbytes=4096 wbytes=0 rios=1".
func parseV2(content, device string) (read, wrote int64) {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != device {
			continue
		}
		for _, word := range fields[1:] {
			key, value, _ := strings.Cut(word, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch key {
			case "rbytes":
				read = n
			case "wbytes":
				wrote = n
			}
		}
	}
	return read, wrote
}
