package targets

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
)

// Selection reports what SelectTargets found and chose. It carries counts only; the
// targets themselves are in the shards.
type Selection struct {
	// Desired is how many targets the count asks for, of the pods or nodes that match now.
	Desired int `json:"desired"`
	// Selected counts the targets that are disrupted, old and new.
	Selected int `json:"selected"`
	// Matching counts the healthy pods or nodes that match.
	Matching int `json:"matching"`
	// Added are the numbers of the shards that got targets: shards that are new since
	// Known, and shards whose free places were filled.
	Added []int `json:"added,omitempty"`
	// Shards counts all shards, and Run the choices before this one, if free places may be
	// filled. Targets of an earlier Run in the Added shards have chaos pods already.
	Shards int `json:"shards,omitempty"`
	Run    int `json:"run,omitempty"`
	// Versions are the resource versions of the Added records.
	Versions []string `json:"versions,omitempty"`
	// Held names the disruptions that hold matching targets. Empty when this disruption
	// may have all.
	Held string `json:"held,omitempty"`
	// Operated names the matching pods that another operation uses, which are not chosen.
	// Empty when there is none.
	Operated string `json:"operated,omitempty"`
	// Budget names the PodDisruptionBudgets without room for matching pods. Empty when all
	// have room, or the disruption respects none.
	Budget string `json:"budget,omitempty"`
	// Full names the nodes without room for more chaos pods. Empty when all have room.
	Full string `json:"full,omitempty"`
	// Denied names the rules of policies that allow fewer targets. Empty when none does.
	Denied string `json:"denied,omitempty"`
	// DeniedBy are these rules, each once, also those that Denied only counts. No history
	// keeps them.
	DeniedBy []policy.Rule `json:"-"`
	// Caught is what safe mode objects to, where it only warns. Empty without an
	// objection.
	Caught string `json:"caught,omitempty"`
	// Failed reports how many targets could not be injected, why, and the time of the next
	// attempt. Empty when all could.
	Failed string `json:"failed,omitempty"`
	// RetryAt is when the first failed target may be chosen again, or nodes may have room;
	// nil without such a time.
	RetryAt *time.Time `json:"retryAt,omitempty"`
	// Lost reports that targets were lost and Squall does not replace them any more. Empty
	// while it replaces all.
	Lost string `json:"lost,omitempty"`
	// Kept counts the places that are kept for pods in Operated.
	Kept int `json:"kept,omitempty"`
	// Control is the wanted and the actual size of the control group; nil without a group.
	Control *ControlCount `json:"control,omitempty"`
	// Invalid is why no target can ever be disrupted as the spec asks.
	Invalid string `json:"invalid,omitempty"`
}

// ControlCount is the size of a control group.
type ControlCount struct {
	Wanted int `json:"wanted"`
	Chosen int `json:"chosen"`
}

// VersionOf returns the version of an added shard's record; empty if the selection has
// none.
func (s Selection) VersionOf(number int) string {
	if i := slices.Index(s.Added, number); i >= 0 && i < len(s.Versions) {
		return s.Versions[i]
	}
	return ""
}

// NoteAdded writes into the selection which shards got targets by the choice, and the
// versions of their records.
func (s *Selection) NoteAdded(choice Choice, shards []Shard) {
	total := choice.Known
	for _, shard := range shards {
		total = max(total, shard.Number+1)
		fresh := func(t Target) bool { return !choice.stands(shard.Number, t) }
		if shard.Number >= choice.Known || slices.ContainsFunc(shard.Targets, fresh) {
			s.Added = append(s.Added, shard.Number)
			s.Versions = append(s.Versions, shard.Version())
		}
	}
	if choice.Fill {
		s.Shards, s.Run = total, choice.Run
	}
}

// String reports how many targets were chosen, or why none although something matches.
func (s Selection) String() string {
	text := fmt.Sprintf("%d of %d matching targets", s.Selected, s.Matching)
	if s.Selected == 0 && s.Held == "" && s.Operated == "" && s.Budget == "" && s.Full == "" && s.Denied == "" && s.Failed == "" && s.Lost == "" {
		text = fmt.Sprintf("all %d matching targets are disrupted already or were before", s.Matching)
	}
	if why := s.LeftOut(); why != "" {
		text += "; " + why
	}
	if s.Caught != "" {
		text += "; safe mode would refuse it: " + s.Caught
	}
	return text
}

// LeftOut returns why fewer targets are disrupted than wanted. It is empty when all
// are, or when the missing ones were disrupted before.
func (s Selection) LeftOut() string {
	if s.Selected >= s.Desired {
		return ""
	}
	reasons := []string{s.Denied, s.Held, s.Operated, s.Budget, s.Full, s.Failed, s.Lost}
	return strings.Join(slices.DeleteFunc(reasons, func(why string) bool { return why == "" }), "; ")
}

// Holders names the disruptions that hold targets which another may not have, by the
// targets' UIDs.
type Holders map[types.UID]string

// namedHolders bounds how many names a text lists.
const namedHolders = 3

// Of reports how many candidates are held, by which disruptions, and which setting
// would share them. It is empty when none is held.
func (h Holders) Of(spec v1beta1.DisruptionSpec, healthy []Candidate) string {
	count := 0
	names := map[string]bool{}
	for _, c := range healthy {
		if name := h[c.Target.UID]; name != "" {
			count++
			names[name] = true
		}
	}
	if count == 0 {
		return ""
	}
	way := "the same kind is never on a target twice"
	if !spec.AllowDisruptedTargets {
		way = "allowDisruptedTargets: true shares them, but not with the same kind"
	}
	return fmt.Sprintf("%d are held by %s: %s", count, shortList(names), way)
}

// Candidate is a healthy pod or node that matches the selector.
type Candidate struct {
	Target v1beta1.InjectionTarget
	// Missing names a container that the spec asks for and that does not run in the pod.
	// Ephemeral is true when the pod has it as an ephemeral container, made by kubectl
	// debug.
	Missing   string
	Ephemeral bool
	// Irreplaceable is why the pod would not start on another node, if the spec replaces
	// pods.
	Irreplaceable string
	// Unlimited is a container without a memory limit, if the spec needs one.
	Unlimited string
	// Static is true for a static pod, which is no target. On the node only the hash of
	// the kubelet's file identifies its containers. Anyone who may create pods can write
	// any hash on a pod, so an injector trusts the pod's UID alone.
	Static bool
	// Unmanaged is true for a pod that no driver moves, if the spec skips such pods.
	Unmanaged bool
	// Operation names the sign of another operation on the pod, if the spec respects
	// operations. Such a pod is not chosen.
	Operation string
	// KeepsPlace is true for a pod with an Operation that the disruption waits for.
	KeepsPlace bool
	// Spared is why a matching node is not disrupted; empty for a node that may be.
	Spared string
	// Labels are the labels of the pod or node.
	Labels map[string]string
	// Denied names the rule of a policy that forbids to disrupt it; empty without such a
	// rule. deniedBy is that rule.
	Denied   string
	deniedBy *policy.Rule
	// limits are the rules that bound how many are disrupted at once and that count it.
	limits []string
	// tries counts how often it was chosen before and never injected.
	tries int
	// control is true for a member of the control group, which is never chosen.
	control bool
}

// Tally counts the wanted targets and those that are disrupted already. A pod that was
// disrupted at its start no longer waits, and a pod that a driver took out of service for
// the disruption is not ready: both still count as matches.
func Tally(spec v1beta1.DisruptionSpec, healthy []Candidate, shards []Shard) Selection {
	active := Active(shards)
	matching := len(healthy)
	if spec.OnInit || spec.ParticipatesInOperations() {
		for _, target := range active {
			if !slices.ContainsFunc(healthy, func(c Candidate) bool { return c.Target.UID == target.UID }) {
				matching++
			}
		}
	}
	return Selection{Matching: matching, Desired: spec.Wanted(matching), Selected: len(active)}
}

// Wanted is how many of the candidates a disruption wants, including those that others
// hold.
func Wanted(spec v1beta1.DisruptionSpec, healthy []Candidate) int {
	return min(spec.Wanted(len(healthy)), len(healthy))
}

// notNow is a number of tries. past returns it for a target that is disrupted, that was
// disrupted and may not be chosen again, or whose next attempt is later.
const notNow = 1 << 20

// past returns the number of tries of every target that was ever chosen. The shards are
// in order.
func past(shards []Shard, now time.Time) map[types.UID]int {
	tries := map[types.UID]int{}
	for uid, target := range latest(shards) {
		switch {
		case target.Returns:
			tries[uid] = target.Tries
		case target.Again && !now.Before(target.nextTry()):
			tries[uid] = target.Tries + 1
		default:
			tries[uid] = notNow
		}
	}
	return tries
}

// choose takes at most n candidates at random, each at most once.
func choose(candidates []Candidate, n int) []Target {
	usable := slices.DeleteFunc(slices.Clone(candidates), func(c Candidate) bool { return !c.usable() })
	rand.Shuffle(len(usable), func(i, j int) { usable[i], usable[j] = usable[j], usable[i] })
	chosen := make([]Target, 0, max(n, 0))
	for _, c := range usable[:min(max(n, 0), len(usable))] {
		chosen = append(chosen, Target{InjectionTarget: c.Target, Tries: c.tries, Limits: c.limits})
	}
	return chosen
}

// usable is true for a candidate that can be disrupted as the spec asks.
func (c Candidate) usable() bool {
	return c.Missing == "" && c.Irreplaceable == "" && c.Unlimited == "" && !c.Static && !c.Unmanaged && c.Spared == ""
}

// Unusable returns why the candidate cannot be disrupted as the spec asks; empty if it
// can.
func (c Candidate) Unusable() string {
	switch {
	case c.Ephemeral:
		return fmt.Sprintf("container %q of spec.containers is %s", c.Missing, ephemeral)
	case c.Missing != "":
		return fmt.Sprintf("container %q of spec.containers does not run in it", c.Missing)
	case c.Irreplaceable != "":
		return c.Irreplaceable
	case c.Unlimited != "":
		return unlimited(c.Unlimited)
	case c.Static:
		return staticPod
	case c.Unmanaged:
		return unmanaged
	case c.Spared != "":
		return c.Spared
	case c.Denied != "":
		return "it is denied by " + c.Denied
	case c.Operation != "":
		return "another operation uses it: " + c.Operation
	}
	return ""
}

// ephemeral is why a container of kubectl debug is not disrupted, and what to do
// instead.
const ephemeral = "an ephemeral container, which is never disrupted; name a container of the pod's spec"

// staticPod is why a static pod is not disrupted, and what to do instead.
const staticPod = "it is a static pod, which Squall cannot identify on its node; disrupt the node with level: node"

// unlimited is why a pod is not put under memory pressure, and what to do instead.
func unlimited(container string) string {
	return fmt.Sprintf("container %q has no memory limit, so memory pressure would fill its node; set a limit,"+
		" or unsafeMode.allowMemoryPressureWithoutLimit, which needs the right to disrupt nodes", container)
}

// unmanaged is why a pod counts as a pod without a driver.
const unmanaged = "no driver moves it: it needs the label " + podops.LabelManaged + "=" + podops.ManagedValue + ", the readiness gate " + podops.ReadinessGate +
	" since its creation, and that condition in its status (podOpsLifecycle.unmanagedPods Skip)"

// Unusable explains why none of the healthy pods can be disrupted; empty if one can.
func Unusable(spec v1beta1.DisruptionSpec, healthy []Candidate) string {
	if len(healthy) == 0 || slices.ContainsFunc(healthy, Candidate.usable) {
		return ""
	}
	if first := healthy[0]; first.Spared != "" {
		return fmt.Sprintf("node %s is left alone, and so is any other matching node: %s", first.Target.Name, first.Spared)
	}
	if first := healthy[0]; first.Irreplaceable != "" {
		return fmt.Sprintf("pod %s cannot be replaced, nor can any other matching pod: %s", first.Target.Name, first.Irreplaceable)
	}
	missing := slices.IndexFunc(healthy, func(c Candidate) bool { return c.Missing != "" })
	switch first := healthy[0]; {
	case missing >= 0 && healthy[missing].Ephemeral:
		return fmt.Sprintf("container %q of spec.containers is, in pod %s, %s", healthy[missing].Missing, healthy[missing].Target.Name, ephemeral)
	case missing >= 0:
		return fmt.Sprintf("container %q of spec.containers does not run in pod %s, nor all of spec.containers in any other matching pod",
			healthy[missing].Missing, healthy[missing].Target.Name)
	case first.Unlimited != "":
		return fmt.Sprintf("pod %s cannot be disrupted, nor can any other matching pod: %s", first.Target.Name, unlimited(first.Unlimited))
	case first.Static:
		return fmt.Sprintf("pod %s cannot be disrupted, nor can any other matching pod: %s", first.Target.Name, staticPod)
	default:
		return fmt.Sprintf("pod %s cannot take part, nor can any other matching pod: %s", first.Target.Name, unmanaged)
	}
}

// nextClaims decides which targets the shards beyond stand hold next, from one read of
// the cluster. pending are the targets that they hold now. sure are the pending targets
// that no other disruption claimed first, busy the targets that others claim. left is
// the room that budgets have beside all that is held or sure. wanted is how many
// targets there should be. A pod with another operation keeps a place only if one is
// left after every free candidate is chosen.
func nextClaims(spec v1beta1.DisruptionSpec, healthy []Candidate, stand []Shard, pending []Target, sure map[types.UID]bool, busy Holders, left *room) (next []Target, wanted int) {
	tries := past(stand, time.Now())
	for _, target := range pending {
		tries[target.UID] = notNow
	}
	var free []Candidate
	for _, c := range healthy {
		if c.tries = tries[c.Target.UID]; c.tries < notNow && busy[c.Target.UID] == "" && c.Operation == "" && c.Denied == "" && !c.control {
			free = append(free, c)
		}
	}
	free = left.fit(free)
	count := Tally(spec, healthy, stand)
	wanted = max(0, count.Desired-count.Selected-notReplaced(spec, count.Desired, stand, time.Now()))
	return topUp(pending, sure, wanted, free), wanted
}

// Surplus returns the targets that a percentage no longer asks for, because fewer match
// than when they were chosen: the newest ones. It does not count targets that do not
// match.
func Surplus(spec v1beta1.DisruptionSpec, healthy []Candidate, shards []Shard) []types.UID {
	if !spec.FollowsShare() {
		return nil
	}
	matches := map[types.UID]bool{}
	for _, c := range healthy {
		matches[c.Target.UID] = true
	}
	staying := slices.DeleteFunc(Active(shards), func(t Target) bool { return !matches[t.UID] })
	slices.SortStableFunc(staying, func(a, b Target) int { return cmp.Compare(a.Run, b.Run) })
	return uidsOf(staying[min(len(staying), spec.Wanted(len(healthy))):])
}

// notReplaced counts the lost targets that Squall does not replace. Without this bound,
// a disruption that kills its targets would go through all that match.
func notReplaced(spec v1beta1.DisruptionSpec, desired int, shards []Shard, now time.Time) int {
	if most, bounded := spec.MostLost(desired); bounded {
		return max(0, lost(shards)-most)
	}
	return max(0, lostInHour(shards, hourOf(now))-lossesAnHour*desired)
}

// lossesAnHour bounds the replacements per hour for each wanted target, if neither
// count nor maxLostTargets bounds them.
const lossesAnHour = 10

func lostInHour(shards []Shard, hour int64) (n int) {
	for _, shard := range shards {
		if shard.forgotten.Hour == hour {
			n += shard.forgotten.LostInHour
		}
		for _, target := range shard.Targets {
			if target.Lost && target.EndedAt != nil && hourOf(target.EndedAt.Time) == hour {
				n++
			}
		}
	}
	return n
}

func lost(shards []Shard) (n int) {
	for _, shard := range shards {
		n += shard.forgotten.Lost
		for _, target := range shard.Targets {
			if target.Lost {
				n++
			}
		}
	}
	return n
}

// NoteLost writes into the selection that fewer targets are disrupted than wanted
// because too many were lost. If the bound is the hourly one, it sets RetryAt to the
// next hour.
func (s *Selection) NoteLost(spec v1beta1.DisruptionSpec, shards []Shard, now time.Time) {
	n := notReplaced(spec, s.Desired, shards, now)
	if n == 0 || s.Selected >= s.Desired {
		return
	}
	n = min(n, s.Desired-s.Selected)
	if _, bounded := spec.MostLost(s.Desired); bounded {
		s.Lost = fmt.Sprintf("%d targets were lost and %d of them are not replaced (maxLostTargets)", lost(shards), n)
		return
	}
	next := time.Unix((hourOf(now)+1)*int64(time.Hour/time.Second), 0)
	if s.RetryAt == nil || next.Before(*s.RetryAt) {
		s.RetryAt = &next
	}
	s.Lost = fmt.Sprintf("%d targets were lost this hour; %d of them are replaced after %s. The default limit is %d per hour for each wanted target; maxLostTargets changes it",
		lostInHour(shards, hourOf(now)), n, next.UTC().Format(time.RFC3339), lossesAnHour)
}

// NoteFailed writes into the selection how many candidates were never injected, and
// when the first of them is retried, if more targets are wanted.
func (s *Selection) NoteFailed(spec v1beta1.DisruptionSpec, healthy []Candidate, shards []Shard, now time.Time) {
	if s.Selected >= s.Desired || spec.StaticTargeting {
		return
	}
	last := latest(shards)
	failed, why := 0, ""
	for _, c := range healthy {
		target := last[c.Target.UID]
		if target.Active() || !target.Again || !now.Before(target.nextTry()) {
			continue
		}
		if failed++; failed == 1 {
			why = target.Name + ": " + target.Ended
		}
		if next := target.nextTry(); s.RetryAt == nil || next.Before(*s.RetryAt) {
			s.RetryAt = &next
		}
	}
	if failed > 0 {
		s.Failed = fmt.Sprintf("%d could not be injected (%s); the next attempt is at %s", failed, why, s.RetryAt.UTC().Format(time.RFC3339))
	}
}

// topUp replaces each target that is not sure by a free one, and adds free ones up to
// wanted. When no free one is left, the last targets move into the gaps. A target that
// stays never moves to a later place.
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

// keptPlaces counts the candidates that keep a place and could be chosen otherwise.
func keptPlaces(healthy []Candidate, tries map[types.UID]int, busy Holders) (n int) {
	for _, c := range healthy {
		if c.KeepsPlace && c.Denied == "" && !c.control && tries[c.Target.UID] < notNow && busy[c.Target.UID] == "" {
			n++
		}
	}
	return n
}

// NoteOperated writes into the selection which candidates were not chosen because
// another operation uses them, and how many places are kept for them.
func (s *Selection) NoteOperated(healthy []Candidate, claims Claims) {
	tries := past(claims.Own, time.Now())
	names := map[string]bool{}
	for _, c := range healthy {
		if c.Operation != "" && tries[c.Target.UID] < notNow {
			names[c.Target.Name+" ("+c.Operation+")"] = true
		}
	}
	s.Kept = min(max(0, s.Desired-s.Selected), keptPlaces(healthy, tries, claims.Holders))
	if len(names) == 0 {
		return
	}
	s.Operated = fmt.Sprintf("%d are operated on by others: %s", len(names), shortList(names))
	if s.Kept > 0 {
		s.Operated += fmt.Sprintf("; %d places are kept for them (podOpsLifecycle.whenBusy Wait)", s.Kept)
	}
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
