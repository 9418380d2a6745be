package targets

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func placed(uid string, run int) Target {
	return Target{InjectionTarget: v1beta1.InjectionTarget{UID: types.UID(uid), Name: uid, NodeName: "node-" + uid[:1]}, Run: run}
}

func over(t Target, why string) Target {
	t.Ended = why
	return t
}

// N4: 10,000 targets that come and go, three at a time, leave one record.
func TestTargetsThatComeAndGoStayInOneRecord(t *testing.T) {
	const rounds, each = 3334, 3
	shards := Choice{}.layout(nil, []Target{placed("first", 0)})
	now := metav1.Now()
	for run := 1; run <= rounds; run++ {
		for i := range shards {
			for k := range shards[i].Targets {
				if target := &shards[i].Targets[k]; target.Active() {
					target.Ended, target.Lost, target.EndedAt = Gone, true, &now
				}
			}
		}
		var chosen []Target
		for i := range each {
			chosen = append(chosen, placed(fmt.Sprintf("%d-%d", i, run), 0))
		}
		shards = Choice{Known: len(shards), Run: run, Fill: true}.layout(shards, chosen)
	}
	if len(shards) != 1 || len(shards[0].Targets) > shardSize || len(Active(shards)) != each {
		t.Fatalf("%d records, the first with %d targets, %d of all active; want one, of at most %d, and %d", len(shards), len(shards[0].Targets), len(Active(shards)), shardSize, each)
	}
	if all := lost(shards); all != 1+(rounds-1)*each {
		t.Errorf("%d targets count as lost, want %d", all, 1+(rounds-1)*each)
	}
	nodes := shards[0].Nodes()
	for _, node := range []string{"node-f", "node-0", "node-1", "node-2"} {
		if !slices.Contains(nodes, node) {
			t.Errorf("nodes are %v, want %s: an interrupted cleaning has it searched", nodes, node)
		}
	}
}

func TestLayout(t *testing.T) {
	full := func(why string) (all []Target) {
		for i := range shardSize {
			all = append(all, over(placed(fmt.Sprintf("t%d", i), 0), why))
		}
		return all
	}
	chosen := func(n int) (all []Target) {
		for i := range n {
			all = append(all, placed(fmt.Sprintf("new%d", i), 0))
		}
		return all
	}
	tried := over(placed("tried", 0), "the target no longer matches the selector")
	tried.Returns, tried.Tries = true, 1
	for name, test := range map[string]struct {
		choice Choice
		stand  []Shard
		chosen int
		want   []int // targets by shard
	}{
		"nothing stands":                     {Choice{Fill: true}, nil, 201, []int{200, 1}},
		"a free place":                       {Choice{Known: 1, Run: 1, Fill: true}, []Shard{{Targets: []Target{placed("a", 0)}}}, 1, []int{2}},
		"free places, and nobody fills them": {Choice{Known: 1, Run: 1}, []Shard{{Targets: []Target{placed("a", 0)}}}, 1, []int{1, 1}},
		"a free place in a closed record":    {Choice{Known: 1, Run: 1, Fill: true, Closed: []int{0}}, []Shard{{Targets: []Target{placed("a", 0)}}}, 1, []int{1, 1}},
		"one in the record after it": {Choice{Known: 2, Run: 1, Fill: true, Closed: []int{0}},
			[]Shard{{Targets: []Target{placed("a", 0)}}, {Number: 1, Targets: []Target{placed("b", 0)}}}, 2, []int{1, 3}},
		"all places are taken":                  {Choice{Known: 1, Run: 1, Fill: true}, []Shard{{Targets: full("")}}, 1, []int{200, 1}},
		"targets that are gone make place":      {Choice{Known: 1, Run: 1, Fill: true}, []Shard{{Targets: full(Gone)}}, 3, []int{3}},
		"targets that live and are used do not": {Choice{Known: 1, Run: 1, Fill: true}, []Shard{{Targets: full("its chaos pod ended")}}, 1, []int{200, 1}},
		"nor one that was tried before":         {Choice{Known: 1, Run: 1, Fill: true}, []Shard{{Targets: append(full("")[1:], tried)}}, 1, []int{200, 1}},
		"one with a newer entry does": {Choice{Known: 2, Run: 2, Fill: true},
			[]Shard{{Targets: append(full("")[1:], over(placed("x", 0), "never injected"))}, {Number: 1, Targets: []Target{over(placed("x", 1), "its chaos pod ended")}}}, 1, []int{200, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			parts := test.choice.layout(test.stand, chosen(test.chosen))
			var got []int
			placed := 0
			for i, part := range parts {
				got = append(got, len(part.Targets))
				if part.Number != i {
					t.Errorf("part %d is shard %d", i, part.Number)
				}
				for _, target := range part.Targets {
					if strings.HasPrefix(target.Name, "new") && target.Run == test.choice.Run {
						placed++
					}
				}
			}
			if !slices.Equal(got, test.want) || placed != test.chosen {
				t.Errorf("shards hold %v, want %v; %d of %d that were chosen", got, test.want, placed, test.chosen)
			}
		})
	}
}

// A record that has reached mostForgotten keeps its targets.
func TestARecordForgetsNoNode(t *testing.T) {
	var f Forgotten
	for i := 0; ; i++ {
		target := placed("x", 0)
		target.NodeName = fmt.Sprintf("ip-10-0-0-%d.eu-central-1.compute.internal", i)
		if f.add(target) {
			continue
		}
		if i < 1000 || i > 5000 {
			t.Errorf("%d nodes are remembered, want some thousands", i)
		}
		target.NodeName = f.Nodes[0]
		if !f.add(target) {
			t.Error("a target on a node that is remembered must be kept, want it forgotten")
		}
		return
	}
}

// The newest entry of a target counts, in whichever record it is.
func TestTheNewestEntryCounts(t *testing.T) {
	again := over(placed("x", 1), "never injected")
	again.Again = true
	shards := []Shard{{Targets: []Target{over(placed("x", 2), "its chaos pod ended")}}, {Number: 1, Targets: []Target{again}}}
	if tries := past(shards, time.Now())["x"]; tries != notNow {
		t.Errorf("x counts as tried %d times, want it used up", tries)
	}
}

// rule 19: targets that are chosen later fill a record of earlier ones, and a retry of
// the same attempt finds its own writes.
func TestLaterTargetsFillARecord(t *testing.T) {
	for name, watch := range map[string]func(c *cluster){
		"the watch is up to date": func(*cluster) {},
		"the watch is behind":     func(c *cluster) { c.Watch = behind() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.targets(4, nil)
			watch(c)
			a, b := c.two("a"), c.two("b")
			first := c.claim(a)
			c.claim(b)
			_, err := c.End(t.Context(), a.Ref(), 0, "clean", func(target Target) Ending {
				if target.UID == first[0] {
					return Ending{Why: Gone, Lost: true}
				}
				return Ending{}
			})
			c.must(err)
			c.targets(1, nil)
			healthy, err := c.Healthy(t.Context(), a)
			c.must(err)
			healthy = slices.DeleteFunc(healthy, func(c Candidate) bool { return c.Target.UID == first[0] })
			choice := Choice{Known: 1, Run: 1, Fill: true}
			for range 2 {
				claims, err := c.Claim(t.Context(), a, choice, healthy, nil)
				c.must(err)
				var s Selection
				s.NoteAdded(choice, claims.Own)
				if len(claims.Own) != 1 || len(Active(claims.Own)) != 2 || !slices.Equal(s.Added, []int{0}) || s.Shards != 1 || s.Run != 1 {
					t.Errorf("%d records with %d active targets, selection %+v; want one with two, and shard 0 added to", len(claims.Own), len(Active(claims.Own)), s)
				}
			}
			held := map[types.UID]bool{}
			for _, uid := range append(c.chosen(a), c.chosen(b)...) {
				held[uid] = true
			}
			if len(held) != 4 {
				t.Errorf("%d targets are held by two disruptions of two each, want 4", len(held))
			}
		})
	}
}

// N14: a record that cannot be read holds what its owner may have, and nothing else.
func TestARecordThatCannotBeReadHoldsItsNamespace(t *testing.T) {
	c := newCluster(t)
	c.targets(2, nil)
	owner := c.two("owner")
	_, err := c.StoreSpec(t.Context(), owner, "run", nil)
	c.must(err)
	c.claim(owner)
	records := c.Kube.CoreV1().ConfigMaps(c.Store.Namespace)
	name := shardName(owner.UID, 0)
	record, err := records.Get(t.Context(), name, metav1.GetOptions{})
	c.must(err)
	record.Data[keyTargets] = "{"
	_, err = records.Update(t.Context(), record, metav1.UpdateOptions{})
	c.must(err)
	elsewhere, node := c.two("elsewhere"), c.two("node")
	elsewhere.Namespace = c.makeNamespace(c.Kube, "cart-")
	node.Spec.Level = v1beta1.LevelNode
	broken := func(s Shard) bool { return s.broken != nil }
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if all, _, _ := c.Watch.now(nil); slices.ContainsFunc(all, broken) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the watch does not see the record")
		}
	}
	for _, other := range []struct {
		d    *v1beta1.Disruption
		want int
	}{{c.two("same"), 0}, {elsewhere, 2}, {node, 2}} {
		var healthy []Candidate
		for i := range 2 {
			healthy = append(healthy, Candidate{Target: v1beta1.InjectionTarget{UID: types.UID(fmt.Sprint(other.d.Name, i)), Namespace: other.d.Namespace}})
		}
		claims, err := c.Claim(t.Context(), other.d, Choice{}, healthy, nil)
		c.must(err)
		if got := len(Active(claims.Own)); got != other.want {
			t.Errorf("%s has %d targets, want %d", other.d.Name, got, other.want)
		}
		if len(claims.Unread) != 1 || claims.Unread[0].Owner.Name != "owner" || claims.Unread[0].Record != name {
			t.Errorf("%s: unread = %+v, want the owner and its record", other.d.Name, claims.Unread)
		}
	}
}
