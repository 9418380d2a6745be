package targets

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A dynamic disruption chooses targets for as long as it lasts. New targets take free
// places in the records of earlier ones, and a record forgets targets that cannot be
// chosen again. So the number of records follows the number of targets at one time, not
// of all targets ever chosen (decision 0001).

// Choice defines which targets of a disruption stand, and where new ones go.
type Choice struct {
	// Known is how many of the disruption's records the workflow knows.
	Known int
	// Run counts the choices before this one.
	Run int
	// Fill puts new targets into free places of known records. Without it they get records
	// of their own.
	Fill bool
	// Closed are known records that get no new targets. They are the same in each attempt
	// at a choice.
	Closed []int
}

// stands is false for a target that an earlier attempt at this very choice claimed.
func (c Choice) stands(number int, t Target) bool {
	return number < c.Known && (!c.Fill || t.Run < c.Run || !t.Active())
}

// split separates the known shards, with the targets that stand, from the pending
// targets.
func (c Choice) split(own []Shard) (stand []Shard, pending []Target) {
	for _, shard := range own {
		kept := shard
		kept.Targets = nil
		for _, target := range shard.Targets {
			if c.stands(shard.Number, target) {
				kept.Targets = append(kept.Targets, target)
			} else {
				pending = append(pending, target)
			}
		}
		if shard.Number < c.Known {
			stand = append(stand, kept)
		}
	}
	return stand, pending
}

// layout puts the chosen targets into shards: into free places of those that stand,
// then into new shards. No attempt has fewer places than the one before, so a target
// that stays chosen never moves to a later shard.
func (c Choice) layout(stand []Shard, chosen []Target) []Shard {
	for i := range chosen {
		chosen[i].Run = c.Run
	}
	var parts []Shard
	newest := latest(stand)
	for _, shard := range stand {
		if c.Fill && !slices.Contains(c.Closed, shard.Number) {
			chosen = shard.fill(chosen, newest)
		}
		parts = append(parts, shard)
	}
	number := c.Known
	for part := range slices.Chunk(chosen, shardSize) {
		parts = append(parts, Shard{Number: number, Targets: part})
		number++
	}
	return parts
}

// fill puts as many targets into the shard as it has room for, and returns the others.
// It forgets targets only if it needs their places.
func (s *Shard) fill(chosen []Target, newest map[types.UID]Target) (rest []Target) {
	kept, forgotten := s.forget(newest)
	n := min(max(shardSize-len(kept), 0), len(chosen))
	if len(s.Targets)+n > shardSize {
		s.Targets, s.forgotten = kept, forgotten
	}
	s.Targets = append(slices.Clip(s.Targets), chosen[:n]...)
	return chosen[n:]
}

// forget returns the shard's content without the targets of which only their number and
// their nodes still matter.
func (s Shard) forget(newest map[types.UID]Target) (kept []Target, forgotten Forgotten) {
	forgotten = s.forgotten
	forgotten.Nodes = slices.Clone(forgotten.Nodes)
	for _, target := range s.Targets {
		if !target.forgettable(newest[target.UID]) || !forgotten.add(target) {
			kept = append(kept, target)
		}
	}
	return kept, forgotten
}

// forgettable reports whether the target has ended and its entry is no longer needed:
// its pod or node is gone for good, may be chosen again, or has a newer entry.
func (t Target) forgettable(newest Target) bool {
	return !t.Active() && (t.Ended == Gone || t.Returns && t.Tries == 0 || newest.Run > t.Run)
}

// Gone is why a target ended whose pod or node no longer exists. A UID never comes
// back.
const Gone = "the target is gone"

// annotationForgotten holds the Forgotten of a record, as JSON. A worker of an older
// version preserves it.
const annotationForgotten = "chaos.squall.dev/forgotten-targets" // record: what is kept of former targets

// mostForgotten bounds the names of nodes in the annotation, in bytes. A record whose
// targets were on more nodes keeps its targets.
const mostForgotten = 100 << 10

// Forgotten is what a record keeps of targets that it held once.
type Forgotten struct {
	// Lost counts the forgotten targets that were lost. LostInHour counts those lost in
	// Hour, the newest hour with a loss.
	Lost       int   `json:"lost,omitempty"`
	Hour       int64 `json:"hour,omitempty"`
	LostInHour int   `json:"lostInHour,omitempty"`
	// Nodes are the nodes of the forgotten targets, each once. An interrupted cleanup
	// searches these too.
	Nodes []string `json:"nodes,omitempty"`
}

// add counts the target among the forgotten ones; false means that the record must keep
// it.
func (f *Forgotten) add(t Target) bool {
	if t.NodeName != "" && !slices.Contains(f.Nodes, t.NodeName) {
		size := len(t.NodeName)
		for _, node := range f.Nodes {
			size += len(node) + len(`"",`)
		}
		if size > mostForgotten {
			return false
		}
		f.Nodes = append(f.Nodes, t.NodeName)
	}
	if !t.Lost {
		return true
	}
	f.Lost++
	if t.EndedAt == nil {
		return true
	}
	switch hour := hourOf(t.EndedAt.Time); {
	case hour > f.Hour:
		f.Hour, f.LostInHour = hour, 1
	case hour == f.Hour:
		f.LostInHour++
	}
	return true
}

// hourOf returns the hours since the Unix epoch.
func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }

// Nodes returns the nodes of all targets that the shard has held.
func (s Shard) Nodes() []string {
	nodes := slices.Clone(s.forgotten.Nodes)
	for _, target := range s.Targets {
		nodes = append(nodes, target.NodeName)
	}
	return nodes
}

func (s *Shard) readForgotten(object *corev1.ConfigMap) error {
	text := object.Annotations[annotationForgotten]
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &s.forgotten); err != nil {
		return fmt.Errorf("record %s: annotation %s: %w", object.Name, annotationForgotten, err)
	}
	return nil
}

func (s Shard) noteForgotten(object *corev1.ConfigMap) error {
	if s.forgotten.Lost == 0 && len(s.forgotten.Nodes) == 0 {
		return nil
	}
	text, err := json.Marshal(s.forgotten)
	if err != nil {
		return err
	}
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Annotations[annotationForgotten] = string(text)
	return nil
}

// latest returns the newest entry of every target that was ever chosen. The shards are
// in order.
func latest(shards []Shard) map[types.UID]Target {
	newest := map[types.UID]Target{}
	for _, target := range targetsOf(shards) {
		if old, found := newest[target.UID]; !found || target.Active() || !old.Active() && target.Run >= old.Run {
			newest[target.UID] = target
		}
	}
	return newest
}
