package manifest

import (
	"fmt"
	"strings"
)

// Nearest is the known name that a wrong one was most likely meant to be. It is empty when
// none is near: two letters apart, or a third of a long name. Of equally near names it is
// the one with the longest common start.
func Nearest(wrong string, known []string) string {
	wrong = strings.ToLower(wrong)
	best, least, alike := "", max(2, len(wrong)/3)+1, 0
	for _, name := range known {
		apart, begins := distance(wrong, strings.ToLower(name)), commonStart(wrong, strings.ToLower(name))
		if apart < len(name) && (apart < least || apart == least && best != "" && begins > alike) {
			best, least, alike = name, apart, begins
		}
	}
	return best
}

func commonStart(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func didYouMean(wrong string, known []string) string {
	if name := Nearest(wrong, known); name != "" {
		return fmt.Sprintf(": did you mean %q?", name)
	}
	return ""
}

// distance is how many letters must be changed, added or removed to turn a into b; two
// neighbours that change places count once.
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(row[j+1]+1, next[j]+1, row[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
