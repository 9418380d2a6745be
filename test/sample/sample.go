// Package sample chooses what a test tries of more than it has time for. The
// choice follows from the commit: it is the same on every machine, and over many
// commits everything is tried.
package sample

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// Variable is the environment variable that overrides the commit's seed.
const Variable = "SQUALL_SEED"

// fixed is the seed where there is no git or no history, such as in a virtual
// machine or an unpacked archive.
const fixed = 1

// A Seed is what choices follow from. It is never 0.
type Seed uint64

// Of returns given unless it is 0, else the seed of the environment or of the
// commit that is checked out. It logs the seed and how to choose the same again.
func Of(t testing.TB, given uint64) Seed {
	t.Helper()
	seed, from, err := Find(given)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d, of %s; the same choices again: %[3]s=%[1]d", seed, from, Variable)
	return seed
}

// Find is Of without a test; from is where the seed comes from.
func Find(given uint64) (seed Seed, from string, err error) {
	if given != 0 {
		return Seed(given), "-seed", nil
	}
	return find(os.Getenv(Variable), func() (string, error) {
		out, err := exec.Command("git", "rev-parse", "HEAD").Output()
		return strings.TrimSpace(string(out)), err
	})
}

func find(variable string, commit func() (string, error)) (seed Seed, from string, err error) {
	if variable != "" {
		number, err := strconv.ParseUint(variable, 10, 64)
		if err != nil || number == 0 {
			return 0, "", fmt.Errorf("%s=%q: want a number above 0", Variable, variable)
		}
		return Seed(number), Variable, nil
	}
	hash, err := commit()
	if err != nil {
		return fixed, fmt.Sprintf("no commit (%v)", err), nil
	}
	const digits = 8
	short := hash[:min(digits, len(hash))]
	number, err := strconv.ParseUint(short, 16, 64)
	if err != nil {
		return 0, "", fmt.Errorf("git rev-parse HEAD: %q is no hash", hash)
	}
	return Seed(max(number, 1)), "commit " + short, nil
}

// Chosen reports whether a name belongs to the sample, which is about the given
// share of all names, in percent.
func (s Seed) Chosen(name string, share int) bool {
	const percent = 100
	return s.Rank(name)%percent < uint64(max(share, 0))
}

// Rank puts names into an order that is another one for each seed.
func (s Seed) Rank(name string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", s, name))
	return binary.BigEndian.Uint64(sum[:])
}
