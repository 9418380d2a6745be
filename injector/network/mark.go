package network

import (
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Whatever outlives the injector carries its name in the kernel: filters this
// prefix, then the UIDs of disruption and target; programs, whose names are
// short, another one.
const (
	filterPrefix  = "squall:"
	programPrefix = "squall_"
	// ownsClsact ends the names of filters whose clsact Squall made: whoever
	// takes off the last filter takes off the clsact too, also if it was made
	// for another disruption that has ended before.
	ownsClsact = ":clsact"
)

// mark names what belongs to one injection.
type mark struct{ filter, program string }

func markOf(injection v1beta1.Injection) mark {
	uid := string(injection.Disruption.UID)
	return mark{
		filter:  filterPrefix + uid + ":" + string(injection.Target.UID),
		program: programPrefix + programWord(uid),
	}
}

// owns reports whether a filter of this name is of this injection.
func (m mark) owns(filter string) bool {
	return strings.TrimSuffix(filter, ownsClsact) == m.filter
}

// programWord keeps the first 8 letters of a UID; a program's name has 15, and
// the kernel takes letters, digits and underscores.
func programWord(uid string) string {
	word := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, uid)
	return word[:min(len(word), 8)]
}
