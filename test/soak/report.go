package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// selfHeal is the line for injectors killed while the control plane lives: 95
// of 100 nodes are clean in this time.
const selfHeal = 10 * time.Second

// fewestHeals is the least number of heals that proves that nodes heal,
// fewestForLine the least that proves how soon: of fewer than 20 none may be late,
// and one always may.
const (
	fewestHeals   = 3
	fewestForLine = 20
)

// outcome is all that a soak has seen.
type outcome struct {
	trials   []trial // begun
	notBegun int
	kills    []killed
	lost     []string
	left     []string
}

// limit is a line that must be kept.
type limit struct {
	kept bool
	what string
}

// limits judges.
func (o outcome) limits(want options) (all []limit) {
	add := func(kept bool, format string, args ...any) {
		all = append(all, limit{kept, fmt.Sprintf(format, args...)})
	}
	add(len(o.trials) >= want.disruptions, "%d disruptions begun, %d wanted within %s", len(o.trials), want.disruptions, want.bound)
	add(len(o.lost) == 0, "%d lost%s", len(o.lost), listed(o.lost))
	add(len(o.left) == 0, "%d left over%s", len(o.left), listed(o.left))
	early := o.early()
	add(len(early) == 0, "%d ended while a journal of theirs was on a node%s", len(early), listed(early))
	for _, part := range parts {
		n, healed := 0, 0
		for _, k := range o.of(part) {
			n++
			if k.healed > 0 {
				healed++
			}
		}
		wanted := part == injector || want.alone < 100
		add(healed == n && (n > 0 || !wanted), "%s killed %d times, healed %d times", part, n, healed)
	}
	if alone := o.heals(false); want.alone > 0 {
		p95 := quantile(alone, 0.95)
		soon := p95 < selfHeal || len(alone) < fewestForLine
		add(len(alone) >= fewestHeals && soon, "SIGKILL of an injector to a clean node, the rest lives: p95 %s of %d, at least %d wanted; line %s, for %d or more",
			seconds(p95), len(alone), fewestHeals, selfHeal, fewestForLine)
	}
	return all
}

// lines are what a person reads.
func (o outcome) lines(want options) []string {
	storm, operations, given, verdicts := 0, 0, 0, map[string]int{}
	kinds := map[string]int{}
	for _, t := range o.trials {
		kinds[string(t.ending)]++
		if t.spec.ParticipatesInOperations() {
			operations++
			if t.injected {
				given++
			}
		}
		if t.spec.SteadyState != nil {
			verdicts[t.verdict()]++
		}
		if t.storm {
			storm++
		}
	}
	lines := []string{
		fmt.Sprintf("%d trials, %d of them in the storm: %s", len(o.trials), storm, joined(kinds)),
		fmt.Sprintf("%d took part in operations on their targets, of which %d were given them all", operations, given),
		fmt.Sprintf("steady state, by verdict: %s", joined(verdicts)),
		fmt.Sprintf("%d deleted before anybody had seen them, not counted", o.notBegun),
		fmt.Sprintf("all had ended %s after the last kill", seconds(o.calm())),
	}
	for _, part := range parts {
		line := fmt.Sprintf("%-15s killed %3d times", part, len(o.of(part)))
		if part != injector && len(o.of(part)) > 0 {
			line += spread(", works again after", o.back(part))
		}
		lines = append(lines, line)
	}
	lines = append(lines,
		"SIGKILL of an injector to a clean node, the rest lives"+spread(":", o.heals(false)),
		"SIGKILL of an injector to a clean node, in the storm"+spread(":", o.heals(true)),
	)
	for _, storm := range []bool{false, true} {
		if slowest, found := o.slowest(storm); found {
			where := map[bool]string{false: "while only injectors were killed", true: "in the storm"}[storm]
			lines = append(lines, fmt.Sprintf("slowest heal %s: %s, from its end (%s) to nothing left, %s", where, slowest.name, slowest.ending, seconds(slowest.took())))
		}
	}
	stuck := o.stuck()
	return append(lines, fmt.Sprintf("%d were stuck for a while%s", len(stuck), listed(stuck)))
}

func (o outcome) of(part string) (found []killed) {
	for _, k := range o.kills {
		if k.part == part {
			found = append(found, k)
		}
	}
	return found
}

// calm is from the last kill until all that ended had ended.
func (o outcome) calm() time.Duration {
	var kill, end time.Time
	for _, k := range o.kills {
		kill = latest(kill, k.at)
	}
	for _, t := range o.trials {
		end = latest(end, t.ended)
	}
	return max(end.Sub(kill), 0)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// back are the times until a part worked again.
func (o outcome) back(part string) (all []time.Duration) {
	for _, k := range o.of(part) {
		all = append(all, k.healed)
	}
	return all
}

// heals are the times from SIGKILL of an injector with a journal to a node
// without.
func (o outcome) heals(storm bool) (all []time.Duration) {
	for _, k := range o.of(injector) {
		if k.journals && k.healed > 0 && k.storm == storm {
			all = append(all, k.healed)
		}
	}
	return all
}

func (o outcome) early() (all []string) {
	for _, t := range o.trials {
		if len(t.early) > 0 {
			all = append(all, t.name+" on "+strings.Join(t.early, ", "))
		}
	}
	return all
}

func (o outcome) stuck() (all []string) {
	for _, t := range o.trials {
		if t.stuck != "" {
			all = append(all, t.name+": "+t.stuck)
		}
	}
	return all
}

// verdict is the last seen verdict of the disruption's steady state.
func (t trial) verdict() string {
	if t.status.SteadyState == nil || t.status.SteadyState.Verdict == "" {
		return "without one"
	}
	return string(t.status.SteadyState.Verdict)
}

// took is how long a disruption needed to end when it was to.
func (t trial) took() time.Duration { return t.ended.Sub(t.asked) }

func (o outcome) slowest(storm bool) (slowest trial, found bool) {
	for _, t := range o.trials {
		if t.storm == storm && !t.ended.IsZero() && (!found || t.took() > slowest.took()) {
			slowest, found = t, true
		}
	}
	return slowest, found
}

// differences lists what is not as it was; what is new counts, too.
func differences(before, after map[string]string) (all []string) {
	keys := maps.Clone(before)
	maps.Copy(keys, after)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if before[key] != after[key] {
			all = append(all, fmt.Sprintf("%s is %q, was %q", key, after[key], before[key]))
		}
	}
	return all
}

// quantile is the smallest of the values that a share of them does not exceed.
func quantile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	at := int(share*float64(len(sorted)) + 0.999999)
	return sorted[min(max(at, 1), len(sorted))-1]
}

func spread(what string, all []time.Duration) string {
	if len(all) == 0 {
		return ": none"
	}
	return fmt.Sprintf("%s p50 %s, p95 %s, longest %s, of %d", what, seconds(quantile(all, 0.5)), seconds(quantile(all, 0.95)), seconds(quantile(all, 1)), len(all))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func joined(counts map[string]int) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		all = append(all, fmt.Sprintf("%d %s", counts[name], name))
	}
	return strings.Join(all, ", ")
}

// listed is a list below a line, at most some of it.
func listed(all []string) string {
	const most = 20
	text := ""
	for _, one := range all[:min(len(all), most)] {
		text += "\n             " + one
	}
	if len(all) > most {
		text += fmt.Sprintf("\n             and %d more", len(all)-most)
	}
	return text
}
