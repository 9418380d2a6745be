package targets

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Selection says what SelectTargets found and chose. It carries counts only;
// the targets themselves are in the shards.
type Selection struct {
	// Desired is how many targets the count asks for, of those that match now.
	Desired int `json:"desired"`
	// Selected counts the targets that are disrupted, old and new.
	Selected int `json:"selected"`
	// Matching counts the healthy pods or nodes that match.
	Matching int `json:"matching"`
	// Added are the numbers of the shards that are new since Known.
	Added []int `json:"added,omitempty"`
	// Invalid says why no target can ever be disrupted as the spec asks.
	Invalid string `json:"invalid,omitempty"`
}

// Candidate is a healthy pod or node that matches the selector.
type Candidate struct {
	Target v1beta1.InjectionTarget
	// Missing names a container the spec asks for and the pod does not have.
	Missing string
	// tries counts how often it was chosen before and never injected.
	tries int
}

// Tally counts what is wanted and what is disrupted already.
func Tally(spec v1beta1.DisruptionSpec, healthy []Candidate, shards []Shard) Selection {
	return Selection{Matching: len(healthy), Desired: spec.Wanted(len(healthy)), Selected: len(Active(shards))}
}

// past are the tries that every target has had which was ever chosen; maxTries
// for one that is disrupted, or was and is used up. The shards are in order.
func past(shards []Shard) map[types.UID]int {
	tries := map[types.UID]int{}
	for _, shard := range shards {
		for _, target := range shard.Targets {
			tries[target.UID] = maxTries
			if target.Again {
				tries[target.UID] = target.Tries + 1
			}
		}
	}
	return tries
}

// choose takes at most n candidates at random, each at most once.
func choose(candidates []Candidate, n int) []Target {
	usable := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return c.Missing != "" })
	rand.Shuffle(len(usable), func(i, j int) { usable[i], usable[j] = usable[j], usable[i] })
	chosen := make([]Target, 0, max(n, 0))
	for _, c := range usable[:min(max(n, 0), len(usable))] {
		chosen = append(chosen, Target{InjectionTarget: c.Target, Tries: c.tries})
	}
	return chosen
}

// MissingContainers explains why none of the healthy pods can be disrupted, or
// is empty.
func MissingContainers(spec v1beta1.DisruptionSpec, healthy []Candidate) string {
	for _, c := range healthy {
		if c.Missing == "" {
			return ""
		}
	}
	if len(healthy) == 0 || len(spec.Containers) == 0 {
		return ""
	}
	return fmt.Sprintf("container %q of spec.containers does not run in pod %s, nor all of spec.containers in any other matching pod",
		healthy[0].Missing, healthy[0].Target.Name)
}

// nextClaims decides what the shards beyond those that stand are to hold, from
// what was read in one round: pending is what they hold, sure has those of
// pending that were there before anybody else claimed them, busy what others
// claim. wanted is how many there should be.
func nextClaims(spec v1beta1.DisruptionSpec, healthy []Candidate, stand []Shard, pending []Target, sure, busy map[types.UID]bool) (next []Target, wanted int) {
	tries := past(stand)
	for _, target := range pending {
		tries[target.UID] = maxTries
	}
	var free []Candidate
	for _, c := range healthy {
		if c.tries = tries[c.Target.UID]; c.tries < maxTries && !busy[c.Target.UID] {
			free = append(free, c)
		}
	}
	count := Tally(spec, healthy, stand)
	wanted = count.Desired - count.Selected
	return topUp(pending, sure, wanted, free), wanted
}

// topUp puts a free target in the place of each that is not sure, and adds more
// while there are fewer than wanted. When none is free any more, the last ones
// move into the gaps: none that stays ever moves to a later place.
func topUp(pending []Target, sure map[types.UID]bool, wanted int, free []Candidate) []Target {
	gaps := 0
	for _, target := range pending {
		if !sure[target.UID] {
			gaps++
		}
	}
	fresh := choose(free, wanted-(len(pending)-gaps))
	next := slices.Clone(pending)
	for i := 0; i < len(next); i++ {
		if sure[next[i].UID] {
			continue
		}
		if len(fresh) > 0 {
			next[i], fresh = fresh[0], fresh[1:]
			continue
		}
		next[i] = next[len(next)-1]
		next = next[:len(next)-1]
		i--
	}
	return append(next, fresh...)
}

func targetsOf(shards []Shard) (all []Target) {
	for _, s := range shards {
		all = append(all, s.Targets...)
	}
	return all
}

func uidsOf(targets []Target) []types.UID {
	uids := make([]types.UID, len(targets))
	for i, target := range targets {
		uids[i] = target.UID
	}
	return uids
}
