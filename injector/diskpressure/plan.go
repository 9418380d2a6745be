//go:build linux

package diskpressure

import (
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// unlimited is the value of a limit that is not set, in both versions.
const unlimited = "max"

// limit is one limit of one cgroup on one disk. In version 1 each has a file of its own and
// key is empty, in version 2 all are in io.max.
type limit struct {
	file   string
	device string // major:minor
	key    string
}

// assignment is a limit with its new value: a number or unlimited.
type assignment struct {
	limit
	value string
}

// plan lists the limits of the parameters in the cgroup directory dir. It omits limits that
// are nil or 0.
func plan(asked v1beta1.DiskPressureThrottling, dir string, v2 bool, device string) ([]assignment, error) {
	all := []struct {
		field, v1File, v2Key string
		value                *int64
		largest              int64
	}{
		{"readBytesPerSec", "blkio.throttle.read_bps_device", "rbps", asked.ReadBytesPerSec, math.MaxInt64},
		{"writeBytesPerSec", "blkio.throttle.write_bps_device", "wbps", asked.WriteBytesPerSec, math.MaxInt64},
		// The kernel keeps operations in 32 bits and reads all ones as unlimited.
		{"readIOPSPerSec", "blkio.throttle.read_iops_device", "riops", asked.ReadIOPSPerSec, math.MaxUint32 - 1},
		{"writeIOPSPerSec", "blkio.throttle.write_iops_device", "wiops", asked.WriteIOPSPerSec, math.MaxUint32 - 1},
	}
	var assignments []assignment
	for _, one := range all {
		if one.value == nil || *one.value == 0 {
			continue
		}
		if *one.value < 0 {
			return nil, fmt.Errorf("throttling.%s is %d: want at least 1, or nothing for no limit", one.field, *one.value)
		}
		at := limit{file: filepath.Join(dir, one.v1File), device: device}
		if v2 {
			at = limit{file: filepath.Join(dir, "io.max"), device: device, key: one.v2Key}
		}
		assignments = append(assignments, assignment{at, strconv.FormatInt(min(*one.value, one.largest), 10)})
	}
	return assignments, nil
}

// stricter is the lower of two values: pressure never gives a target more than
// it had.
func stricter(before, asked string) string {
	was, err := strconv.ParseUint(before, 10, 64)
	if err != nil {
		return asked // before is unlimited
	}
	wanted, err := strconv.ParseUint(asked, 10, 64)
	if err != nil || was < wanted {
		return before
	}
	return asked
}

// object returns the limit's name in the journal: "<file> <device>" in version 1, "<file>
// <device> <key>" in version 2.
func (l limit) object() string {
	return strings.TrimSuffix(l.file+" "+l.device+" "+l.key, " ")
}

// parseObject reads what object writes.
func parseObject(object string) (limit, error) {
	fields := strings.Split(object, " ")
	last := len(fields) - 1
	if last >= 1 && strings.Contains(fields[last], ":") {
		return limit{file: strings.Join(fields[:last], " "), device: fields[last]}, nil
	}
	if last >= 2 && strings.Contains(fields[last-1], ":") {
		return limit{file: strings.Join(fields[:last-1], " "), device: fields[last-1], key: fields[last]}, nil
	}
	return limit{}, fmt.Errorf("%q is no disk limit", object)
}

// find returns the value of the limit in the content of its file. A limit without a line is
// unlimited.
func (l limit) find(content string) string {
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != l.device {
			continue
		}
		if l.key == "" {
			return fields[1]
		}
		for _, word := range fields[1:] {
			if value, found := strings.CutPrefix(word, l.key+"="); found {
				return value
			}
		}
	}
	return unlimited
}

// line returns the line that sets the limit to a value. The other limits of the file stay
// as they are.
func (l limit) line(value string) string {
	if l.key != "" {
		return l.device + " " + l.key + "=" + value
	}
	if value == unlimited {
		value = "0" // version 1: the line disappears
	}
	return l.device + " " + value
}
