//go:build linux

package attach

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

// Objects in the kernel identify their injection by name. Filters have this prefix, then
// the UIDs of disruption and target. Programs have short names with another prefix.
const (
	filterPrefix  = "squall:"
	programPrefix = "squall_"
	// LinkPrefix begins the names of links, which are equally short.
	LinkPrefix = "sq_"
	// queueSuffix ends the names of filters that send packets to a queue; ownsClsact may
	// follow.
	queueSuffix = ":queue"
	// ownsClsact ends the names of filters whose clsact Squall made. The removal of the last
	// filter removes the clsact too, also if it was made for another disruption that has ended
	// before.
	ownsClsact = ":clsact"
)

// Mark has the names of the objects of one injection.
type Mark struct {
	// Filter begins the names of its filters, Program is the name of its programs.
	Filter, Program string
}

// MarkOf returns the mark of an injection.
func MarkOf(injection v1beta1.Injection) Mark {
	uids := string(injection.Disruption.UID) + ":" + string(injection.Target.UID)
	return Mark{Filter: filterPrefix + uids, Program: programPrefix + programWord(uids)}
}

// Owns is true if a filter of this name belongs to this injection.
func (m Mark) Owns(filter string) bool {
	return strings.TrimSuffix(strings.TrimSuffix(filter, ownsClsact), queueSuffix) == m.Filter
}

// Link returns the name of a link of the injection in this direction.
func (m Mark) Link(direction classifier.Direction) string {
	end := "_out"
	if direction == classifier.Ingress {
		end = "_in"
	}
	return LinkPrefix + strings.TrimPrefix(m.Program, programPrefix) + end
}

// IsProgram is true if a name has the prefix of Squall's programs.
func IsProgram(name string) bool { return strings.HasPrefix(name, programPrefix) }

// Number is the mark where only 31 bits have room.
func (m Mark) Number() uint32 {
	sum := sha256.Sum256([]byte(m.Filter))
	return binary.BigEndian.Uint32(sum[:]) >> 1
}

// ProbeMark marks objects that only probe the kernel.
func ProbeMark() Mark { return Mark{filterPrefix + "probe", programPrefix + "probe"} }

// programWord returns 8 letters that stand for the UIDs: a program's name has room for 15
// letters in all. Two injections share a word once in 10^12.
func programWord(uids string) string {
	sum := sha256.Sum256([]byte(uids))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:5]))
}
