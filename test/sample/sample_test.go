package sample

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/squall-chaos/squall/test/revision"
)

// TestEachNameIsChosenAtItsShare: over many commits each name is chosen, about as
// often as its share, and independently of the others.
func TestEachNameIsChosenAtItsShare(t *testing.T) {
	const seeds, names = 4000, 50
	for _, share := range []int{2, 4, 50} {
		expected := seeds * share / 100
		deviation := math.Sqrt(float64(expected) * float64(100-share) / 100)
		together := 0
		for i := range names {
			name, n := fmt.Sprintf("worker create pods web-%d/cpu-pressure #1", i), 0
			for seed := Seed(1); seed <= seeds; seed++ {
				chosen := seed.Chosen(name, share)
				if chosen {
					n++
				}
				if chosen && seed.Chosen(name+"0", share) {
					together++
				}
			}
			if off := math.Abs(float64(n - expected)); off > 5*deviation {
				t.Errorf("with a share of %d %%, %q is chosen %d times of %d, want %d and %.0f more or less", share, name, n, seeds, expected, 5*deviation)
			}
		}
		if expected := float64(names) * seeds * float64(share*share) / 10000; math.Abs(float64(together)-expected) > 5*math.Sqrt(expected) {
			t.Errorf("with a share of %d %%, two names are chosen together %d times, want about %.0f", share, together, expected)
		}
	}
}

func TestAllAreChosenOrNone(t *testing.T) {
	for seed := Seed(1); seed < 1000; seed++ {
		if !seed.Chosen("a", 100) || seed.Chosen("a", 0) || seed.Chosen("a", -1) {
			t.Fatalf("seed %d: want all with 100 %%, and none with 0", seed)
		}
	}
}

// The first of some names is each of them about as often.
func TestEachNameIsFirst(t *testing.T) {
	const seeds = 4000
	names := []string{"a cron", "a release", "a scenario", "a sweep"}
	first := map[string]int{}
	for seed := Seed(1); seed <= seeds; seed++ {
		least := names[0]
		for _, name := range names {
			if seed.Rank(name) < seed.Rank(least) {
				least = name
			}
		}
		first[least]++
	}
	for _, name := range names {
		if n := first[name]; n < 850 || n > 1150 {
			t.Errorf("%q is the first of %d for %d seeds of %d, want about 1000", name, len(names), n, seeds)
		}
	}
}

func TestFind(t *testing.T) {
	const hash = "fb26c17a0b"
	at := func() (string, error) { return hash, nil }
	none := func() (string, error) { return "", errors.New("no git") }
	for name, c := range map[string]struct {
		variable string
		commit   func() (string, error)
		want     Seed
		fails    bool
	}{
		"of the commit":            {"", at, 0xfb26c17a, false},
		"of the environment":       {"77", at, 77, false},
		"without git":              {"", none, fixed, false},
		"a commit of zeros":        {"", func() (string, error) { return "0000000000", nil }, 1, false},
		"the environment is wrong": {"seven", at, 0, true},
		"the environment is zero":  {"0", at, 0, true},
		"what git prints is wrong": {"", func() (string, error) { return "HEAD", nil }, 0, true},
	} {
		if got, from, err := find(c.variable, c.commit); got != c.want || err != nil != c.fails || from == "" != c.fails {
			t.Errorf("%s: find = %d, %q, %v, want %d, an error: %t", name, got, from, err, c.want, c.fails)
		}
	}
}

func TestOf(t *testing.T) {
	if got := Of(t, 5); got != 5 {
		t.Errorf("Of(5) = %d, want what was given", got)
	}
	t.Setenv(Variable, "77")
	if got := Of(t, 0); got != 77 {
		t.Errorf("Of = %d, want %s", got, Variable)
	}
	t.Setenv(Variable, "")
	commit, err := revision.Git(".", "rev-parse", "HEAD")
	if err != nil {
		t.Skipf("no commit to compare with: %v", err)
	}
	want, err := strconv.ParseUint(commit[:8], 16, 64)
	if got := Of(t, 0); err != nil || got != Seed(want) {
		t.Errorf("Of = %d, want %d, of commit %s", got, want, commit)
	}
}
