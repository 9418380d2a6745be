package network

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// What is in the kernel says whose it is: filters have this prefix, then the
// UIDs of disruption and target; programs, whose names are short, another one.
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
	uids := string(injection.Disruption.UID) + ":" + string(injection.Target.UID)
	return mark{filter: filterPrefix + uids, program: programPrefix + programWord(uids)}
}

// owns reports whether a filter of this name is of this injection.
func (m mark) owns(filter string) bool {
	return strings.TrimSuffix(filter, ownsClsact) == m.filter
}

// programWord is 8 letters that stand for the UIDs: a program's name has room
// for 15 letters in all. Two injections share a word once in 10^12.
func programWord(uids string) string {
	sum := sha256.Sum256([]byte(uids))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
