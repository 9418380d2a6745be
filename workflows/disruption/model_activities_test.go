package disruption

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/clean"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/activities/verify"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// The activities of the model change the cluster as those of package activities do, write
// by write.

func (c *cluster) prepare(a *attempt) prepare.Plan {
	plan := c.prepareOnce(a)
	if plan.CleanOnly != "" && c.spec != "" {
		plan.Operations = c.plan().Operations // an earlier workflow may have begun some
	}
	return plan
}

func (c *cluster) prepareOnce(a *attempt) prepare.Plan {
	run := fmt.Sprint("run ", c.run)
	switch {
	case !c.there:
		return prepare.Plan{CleanOnly: "the disruption is gone"}
	case c.deleting:
		return prepare.Plan{CleanOnly: "the disruption is being deleted"}
	case c.status.Phase == v1beta1.PhaseFinished:
		return prepare.Plan{CleanOnly: "the disruption has finished"}
	case c.rejected != "":
		return c.plan()
	}
	a.write("keep the spec", func(bool) {
		if c.spec == "" {
			c.spec = run
		}
	})
	if a.hung == 0 && c.spec != run {
		return prepare.Plan{CleanOnly: "an earlier workflow began it"}
	}
	return c.plan()
}

func (c *cluster) choose(a *attempt, in choose.Input) targets.Selection {
	var free []claimed
	s, known := targets.Selection{}, map[string]bool{}
	for _, shard := range c.shards {
		for _, t := range shard {
			known[t.name] = true
			if !t.released {
				s.Selected++
			}
		}
	}
	for _, t := range c.targets {
		if t.gone {
			continue
		}
		s.Matching++
		if !known[t.name] {
			free = append(free, claimed{target: t})
		}
	}
	s.Desired = min(c.wanted, s.Matching)
	if n := min(s.Desired-s.Selected, len(free)); n > 0 {
		for i := range free {
			free[i].run = in.Run
		}
		c.claim(a, in, free[:n])
		s.Selected += n
	}
	for number, shard := range c.shards {
		fresh := func(t claimed) bool { return in.Fill && !t.released && t.run >= in.Run }
		if number >= in.Known || slices.ContainsFunc(shard, fresh) {
			s.Added = append(s.Added, number)
		}
	}
	if in.Fill {
		s.Shards, s.Run = max(in.Known, len(c.shards)), in.Run
	}
	return s
}

// claim puts the targets into places of the first open shard, which drops targets that
// are gone, or into a new one.
func (c *cluster) claim(a *attempt, in choose.Input, chosen []claimed) {
	open := 0
	for slices.Contains(in.Closed, open) {
		open++
	}
	if number := len(c.shards); !in.Fill || open >= in.Known {
		a.write(fmt.Sprintf("claim shard %d", number), func(bool) {
			if len(c.shards) == number {
				c.shards = append(c.shards, chosen)
			}
		})
		return
	}
	before := slices.Clone(c.shards[open])
	a.write(fmt.Sprintf("fill shard %d", open), func(bool) {
		if len(c.shards) <= open || !slices.Equal(before, c.shards[open]) {
			return // the version has changed
		}
		var kept []claimed
		for _, t := range before {
			if t.released && t.gone {
				c.forgotten = append(c.forgotten, t.node)
				continue
			}
			kept = append(kept, t)
		}
		c.shards[open] = append(kept, chosen...)
	})
}

func (c *cluster) createAll(a *attempt, in inject.CreateInput) inject.CreateResult {
	number := in.Number
	if number >= len(c.shards) {
		panic(stopped{errCall}) // the record is gone
	}
	var names []*target
	for _, t := range c.shards[number] {
		if !t.released && t.run >= in.Run && (!in.Operated || t.mayBeDisrupted()) {
			names = append(names, t.target)
		}
	}
	for _, t := range names {
		a.write("create the chaos pod of "+t.name, func(late bool) { c.create(t, number, late) })
	}
	return inject.CreateResult{Pods: len(names)}
}

func (c *cluster) create(t *target, number int, late bool) {
	name := "chaos-" + t.name
	if c.pods[name] != nil {
		return
	}
	if c.cleaning && !late {
		c.violated("%s was created after the cleaning began", name)
	}
	if c.operates && !late && !t.operation.holds() {
		c.violated("%s was created while its target was not given", name)
	}
	c.pods[name] = &chaosPod{name: name, target: t, shard: number, made: c.now(), finalizer: true, late: late}
}

func (c *cluster) awaitInjection(a *attempt) inject.InjectionProgress {
	for {
		seen := inject.InjectionProgress{}
		for _, shard := range c.shards {
			for _, t := range shard {
				pod := c.pods["chaos-"+t.name]
				if t.released {
					continue
				}
				seen.Total++
				if pod != nil && (pod.ready || pod.ended) {
					seen.Injected++
				}
			}
		}
		if seen.Injected == seen.Total {
			a.write("tell the progress", func(bool) {})
			return seen
		}
		a.wait(3 * time.Second)
	}
}

// cleaningAttempt is one attempt of CleanChaosPods.
type cleaningAttempt struct {
	*attempt
	in       clean.Input
	unproved map[string]bool
	tried    map[string]bool
	held     map[string]bool
}

func (c *cluster) clean(a *attempt, in clean.Input) clean.Result {
	k := &cleaningAttempt{a, in, map[string]bool{}, map[string]bool{}, nil}
	if in.ResultLost || in.Shard.Number == chaospod.AllShards || a.n > 1 {
		for number, shard := range c.shards {
			for _, t := range shard {
				k.unproved[t.node] = k.unproved[t.node] || k.has(number)
			}
		}
		for _, node := range c.forgotten { // those of shard 0
			k.unproved[node] = k.unproved[node] || k.has(0)
		}
	}
	for until := c.now().Add(in.Patience); ; a.wait(5 * time.Second) {
		left := k.round()
		waits := slices.ContainsFunc(left, func(l chaospod.LeftPod) bool { return l.Outcome == chaospod.Waiting })
		if !waits || !c.now().Before(until) {
			return k.result(left)
		}
	}
}

func (k *cleaningAttempt) has(shard int) bool {
	return k.in.Shard.Number == chaospod.AllShards || k.in.Shard.Number == shard
}

func (k *cleaningAttempt) result(left []chaospod.LeftPod) clean.Result {
	slices.SortStableFunc(left, func(a, b chaospod.LeftPod) int {
		rank := map[chaospod.Outcome]int{chaospod.Failed: 0, chaospod.Waiting: 1}
		return rank[a.Outcome] - rank[b.Outcome]
	})
	maps.DeleteFunc(k.unproved, func(_ string, doubt bool) bool { return !doubt })
	cleaned := clean.Result{Remaining: len(left), Left: left, UnverifiedNodes: slices.Sorted(maps.Keys(k.unproved))}
	if number := k.in.Shard.Number; k.in.OnlyEnded && number != chaospod.AllShards && number < len(k.c.shards) {
		for _, l := range left {
			k.held[l.Target] = true
		}
		lost := func(mark bool) (n int) {
			for i, t := range k.c.shards[number] {
				since := k.in.Runs > 0 && t.run >= k.in.Runs
				if !t.released && !k.held[t.name] && !since {
					if pod := k.c.pods["chaos-"+t.name]; mark && pod != nil && !pod.late && !pod.ended && pod.deletedAt.IsZero() && !t.gone {
						k.c.violated("%s is given up while it is disrupted: another disruption may take it", t.name)
					}
					k.c.shards[number][i].released = mark
					n++
				}
			}
			return n
		}
		if cleaned.Lost = lost(false); cleaned.Lost > 0 {
			k.write("note who is no longer disrupted", func(bool) {
				if number < len(k.c.shards) {
					lost(true)
				}
			})
		}
	}
	return cleaned
}

func (k *cleaningAttempt) round() (left []chaospod.LeftPod) {
	k.held = map[string]bool{}
	for _, pod := range k.c.sorted() {
		if !k.has(pod.shard) {
			continue
		}
		if k.in.OnlyEnded && pod.deletedAt.IsZero() && !pod.ended && !pod.target.gone {
			k.held[pod.target.name] = true
			continue
		}
		if outcome, why := k.settle(pod); outcome != chaospod.Clean {
			left = append(left, chaospod.LeftPod{Pod: pod.name, Node: pod.target.node, Target: pod.target.name, Outcome: outcome, Why: why})
		}
	}
	return left
}

// settle follows activities.settle.
func (k *cleaningAttempt) settle(pod *chaosPod) (chaospod.Outcome, string) {
	if pod.deletedAt.IsZero() && !pod.ended {
		k.write("delete "+pod.name, func(bool) {
			if k.c.pods[pod.name] == pod && pod.deletedAt.IsZero() {
				pod.deletedAt = k.c.now()
			}
		})
		return chaospod.Waiting, "it is being deleted"
	}
	outcome := judged(pod)
	released := k.in.ReleaseUntil != nil && !pod.failedAt().After(*k.in.ReleaseUntil) || slices.Contains(k.in.Release, pod.name)
	deletedFor := k.c.now().Sub(pod.deletedAt)
	overdue := !pod.deletedAt.IsZero() && deletedFor > graceOfChaosPods()
	switch {
	case released && (outcome == chaospod.Failed || outcome == chaospod.Waiting && overdue):
		k.unproved[pod.target.node] = true
		if !k.c.released[pod.name] {
			k.c.violated("%s is let go of for a person, and nobody who saw it has released it", pod.name)
		}
		k.write("force "+pod.name, func(bool) { k.c.force(pod) })
		return chaospod.Waiting, "a person released it"
	case outcome == chaospod.Failed:
		return k.cleanAgain(pod)
	case outcome == chaospod.Waiting && !pod.started && deletedFor > clean.StartPatience:
		k.unproved[pod.target.node] = true
		if pod.finalizer {
			k.write("take the finalizer off "+pod.name, func(bool) { pod.finalizer = false; k.c.kubelet(pod) })
		}
		return outcome, "the kubelet removes it"
	case outcome == chaospod.Waiting:
		return outcome, "it still runs"
	}
	if pod.exit != neverStarted && pod.exit != cleanAndSearched {
		k.unproved[pod.target.node] = true
	}
	k.write("let go of "+pod.name, func(bool) { k.c.force(pod) })
	if k.c.pods[pod.name] == pod {
		return chaospod.Waiting, "the kubelet removes it"
	}
	return chaospod.Clean, ""
}

// judged follows activities.judge.
func judged(pod *chaosPod) chaospod.Outcome {
	switch {
	case pod.ended && pod.exit <= cleanByItsWord:
		return chaospod.Clean
	case !pod.ended:
		return chaospod.Waiting
	case pod.target.gone:
		return chaospod.Clean
	}
	return chaospod.Failed
}

// cleanAgain follows activities.cleanAgain.
func (k *cleaningAttempt) cleanAgain(pod *chaosPod) (chaospod.Outcome, string) {
	const reason = "the journal cannot be read"
	wanted := slices.Contains(k.in.Retry, pod.target.name) || slices.Contains(k.in.Retry, "*") && !slices.Contains(k.in.Exhausted, pod.name)
	switch {
	case !wanted || k.tried[pod.name]:
		return chaospod.Failed, reason
	case pod.cleaner.IsZero():
		k.write("create the cleaner of "+pod.name, func(bool) { pod.cleaner = k.c.now() })
	case k.c.now().Sub(pod.cleaner) < 3*time.Second:
	case k.c.cleanNode(pod):
		k.write("let go of "+pod.name+" and its cleaner", func(bool) { k.c.force(pod) })
	default:
		k.tried[pod.name], pod.cleaner = true, time.Time{}
		return chaospod.Failed, reason
	}
	return chaospod.Waiting, "a cleaner works on the node"
}

// force removes a chaos pod.
func (c *cluster) force(pod *chaosPod) {
	if c.pods[pod.name] == pod {
		delete(c.pods, pod.name)
	}
}

func (c *cluster) verify(a *attempt, in verify.Input) (v verify.Result) {
	for _, name := range slices.Sorted(maps.Keys(c.marks)) {
		pod := c.marks[name]
		if pod == nil || !slices.Contains(in.Nodes, pod.target.node) {
			continue
		}
		if !in.Released {
			a.write("clean "+pod.target.node, func(bool) { c.cleanNode(pod) })
		}
		if c.marks[name] != nil {
			v.Left = append(v.Left, "node "+pod.target.node+": "+name)
		}
	}
	return v
}

// sweepNodes follows activities.SweepNodes: a mark is cleaned by the sweep when
// its disruption has no object that is not over, no chaos pod and no record.
func (c *cluster) sweepNodes() {
	over := !c.there || !c.finalizer && (c.deleting || c.status.Phase == v1beta1.PhaseFinished || c.rejected != "" || !c.cleanedAt.IsZero())
	owned := !over || len(c.pods)+len(c.shards) > 0 || c.spec != ""
	for _, pod := range slices.Collect(maps.Values(c.marks)) {
		if !owned {
			c.cleanNode(pod)
		}
	}
}

func (c *cluster) report(a *attempt, r status.Report) error {
	a.write("show in status: "+string(r.Phase), func(bool) {
		if c.status.Phase != v1beta1.PhaseFinished || len(r.Left) > 0 {
			c.status = r
		}
	})
	return nil
}

func (c *cluster) finish(a *attempt, e status.FinishInput) int {
	if len(c.pods) > 0 {
		return len(c.pods)
	}
	if left := c.operationsLeft(e); left > 0 {
		return left
	}
	a.write("the last status", func(late bool) {
		c.status, c.verified = status.Report{Phase: v1beta1.PhaseFinished, Ending: e.Ending}, len(e.NotVerified) == 0
		if c.cleanedAt.IsZero() {
			c.cleanedAt = c.now()
		}
		if wrong := c.unexplained(e.NotVerified); len(wrong) > 0 && !late {
			c.violated("status says it is over, and does not say that %v", wrong)
		}
		c.named = append(c.named, e.NotVerified...)
	})
	a.write("forget the records", func(bool) { c.spec, c.shards, c.forgotten = "", nil, nil })
	a.write("take the finalizer off", func(bool) {
		for _, pod := range c.sorted() {
			if !pod.late {
				c.violated("the finalizer goes while %s is there", pod.name)
			}
		}
		c.finalizer = false
		c.vanish()
	})
	return 0
}
