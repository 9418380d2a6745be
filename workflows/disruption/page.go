package disruption

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/prepare"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/flow"
	"github.com/squall-chaos/squall/workflows/start"
)

// showPhase shows a phase on the workflow's page. That adds no event to the history.
func (d *disruption) showPhase(ctx workflow.Context, phase v1beta1.Phase) {
	d.Phase = phase
	workflow.SetCurrentDetails(ctx, details(d.ref, d.State))
}

// publishPhase shows a phase on the workflow's page and in the search
// attributes, by which workflows are found.
func (d *disruption) publishPhase(ctx workflow.Context, phase v1beta1.Phase) {
	d.showPhase(ctx, phase)
	publish := fmt.Sprint(phase, d.stuck(), d.Targets)
	if publish == d.published {
		return // the same value again would only add an event
	}
	d.published = publish
	updates := []temporal.SearchAttributeUpdate{
		start.AttributePhase.ValueSet(string(phase)),
		start.AttributeStuck.ValueSet(d.stuck()),
		start.AttributeTargets.ValueSet(int64(d.Targets)),
	}
	if kinds := d.Plan.Kinds.Names(); len(kinds) > 0 {
		updates = append(updates, start.AttributeKinds.ValueSet(kinds))
	}
	if phase.Over() && d.Plan.ResultSearchable {
		updates = append(updates, start.AttributeEnding.ValueSet(string(d.endingClass())))
		if verdict := d.verdict(ctx); verdict != nil {
			updates = append(updates, start.AttributeVerdict.ValueSet(string(verdict.Verdict)))
		}
	}
	if err := workflow.UpsertTypedSearchAttributes(ctx, updates...); err != nil {
		workflow.GetLogger(ctx).Warn("search attributes not set", "error", err)
	}
}

// endingClass is Rejected, or the class of the ending.
func (s *State) endingClass() v1beta1.EndingClass {
	if s.Plan.Rejected != "" {
		return v1beta1.ClassRejected
	}
	return v1beta1.ClassOf(s.Ending)
}

// details is the page a person reads in the Temporal UI: markdown.
func details(ref v1beta1.DisruptionRef, s State) string {
	var b []string
	b = append(b, fmt.Sprintf("## %s: %s/%s", s.Phase, ref.Namespace, ref.Name), "", sentence(s), "", origin(s.Plan), "", commands(ref, s.Phase))
	b = append(b, probes(s)...)
	if len(s.Left) > 0 && !s.Phase.Over() {
		b = append(b, "", "### Not clean", "")
		for _, pod := range s.Left {
			b = append(b, fmt.Sprintf("- %s on node %s, chaos pod `%s`: %s", pod.Target, pod.Node, nameOf(pod, s.Plan), verbatim(pod.Why)))
		}
		if more := s.Remaining - len(s.Left); more > 0 {
			b = append(b, "", fmt.Sprintf("and %d more.", more))
		}
		b = append(b, hints(s.Left)...)
	}
	if len(s.Resumes) > 0 {
		b = append(b, "", "### Decided so far", "")
		for _, decision := range decisions(s.Resumes) {
			b = append(b, "- "+verbatim(decision))
		}
	}
	return strings.Join(b, "\n")
}

// probes is the section about the probes, if there are any.
func probes(s State) []string {
	if s.Plan == nil || s.Plan.SteadyState == nil || s.Steady == nil {
		return nil
	}
	return flow.ProbeList(*s.Plan.SteadyState, s.Steady, s.Phase.Over())
}

// origin is the line about the faults and the requester. A new run does not
// inherit the summary and the details that the bridge gave the workflow.
func origin(plan *prepare.Plan) string {
	if plan == nil || len(plan.Kinds) == 0 {
		return ""
	}
	line := "Faults: " + strings.Join(plan.Kinds.Names(), ", ") + "."
	if plan.Requester != "" {
		line += " Asked for by " + verbatim(plan.Requester) + "."
	}
	return line
}

// commands are those that work in this phase. A disruption that ends is not ended again.
func commands(ref v1beta1.DisruptionRef, phase v1beta1.Phase) string {
	if phase.Over() {
		return fmt.Sprintf("`squall -n %s history %s` shows how it went.", ref.Namespace, ref.Name)
	}
	line := fmt.Sprintf("`kubectl -n %s describe disruption %s` shows all of it.", ref.Namespace, ref.Name)
	if !phase.Ending() {
		line += fmt.Sprintf(" To end it: `kubectl -n %s delete disruption %s`.", ref.Namespace, ref.Name)
	}
	return line
}

// verbatim is a text of a user, on one line and without its markdown.
func verbatim(text string) string {
	return "`" + strings.NewReplacer("`", "'", "\n", " ").Replace(text) + "`"
}

// decisions lists what people decided, who and why, the oldest first.
func decisions(resumes []v1beta1.ResumeRecord) (all []string) {
	for _, r := range resumes {
		text := r.Action
		if len(r.Targets) > 0 {
			text += " " + strings.Join(r.Targets, ", ")
		}
		if r.By != "" {
			text += " by " + r.By
		}
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		all = append(all, text)
	}
	return all
}

// hints explains what a person can do. JSON has several lines because the dialog formats
// JSON that is pasted on one line only when Submit is clicked. It loses the click when
// that moves the button.
func hints(left []chaospod.LeftPod) []string {
	return []string{
		"", "Fix the node if necessary. To retry the clean-up from the journal on the node:",
		"*More Actions*, *Send an Update*, `resume`, and paste:", "", "```json", "{", `  "action": "retry"`, "}", "```",
		"", "Deleting the target pod also ends the injection.",
		"", "To release the targets, clean or not, send instead:", "", "```json", releaseExample(left), "```",
	}
}

func sentence(s State) string {
	switch {
	case s.Plan == nil:
		return "Reading the spec."
	case s.Plan.Rejected != "":
		return "Refused: " + s.Plan.Rejected
	}
	until := "until " + flow.Clock(s.Plan.ExpireAt)
	switch s.Phase {
	case v1beta1.PhasePending:
		if s.Plan.CleanOnly != "" {
			return "Only the rest of it is cleaned up: " + s.Plan.CleanOnly + "."
		}
		return "Nothing is injected before " + flow.Clock(s.Plan.CreateAt) + "."
	case v1beta1.PhaseSelecting:
		if s.Steady != nil {
			return fmt.Sprintf("Holding back %s until the steady state is proven.", flow.Number(s.Targets, "target"))
		}
		return "Choosing targets. While none match it waits for some, " + until + "."
	case v1beta1.PhaseInjecting:
		if len(s.Operations.Asked) > 0 {
			return fmt.Sprintf("Asking for %s, to be injected when they are given, and to be disrupted %s.", flow.Number(s.Targets, "target"), until)
		}
		return fmt.Sprintf("Injecting %s, to be disrupted %s.", flow.Number(s.Targets, "target"), until)
	case v1beta1.PhaseHolding:
		return fmt.Sprintf("Disrupting %s %s.", flow.Number(s.Targets, "target"), until)
	case v1beta1.PhaseCleaning:
		if s.Steady != nil && s.Steady.Phase == v1beta1.ProbeAfter {
			return "Nothing is left. Watching whether the steady state comes back: " + s.Ending + "."
		}
		return "Cleaning up: " + s.Ending + "."
	case v1beta1.PhaseStuck:
		return fmt.Sprintf("**Not clean: %s.** Squall retries every %d minutes, and when the cluster changes.",
			flow.Number(s.Remaining, "chaos pod"), int(retryPeriod.Minutes()))
	case v1beta1.PhaseFinished:
		if s.ReleasedPods > 0 {
			return fmt.Sprintf("Over. Ending: %s. Released by a person without being clean: %s.", s.Ending, flow.Number(s.ReleasedPods, "chaos pod"))
		}
		return "Over. Ending: " + s.Ending + ". Nothing is left."
	}
	return ""
}

// nameOf names a chaos pod, and its fault if there are several: the page is narrow.
func nameOf(pod chaospod.LeftPod, plan *prepare.Plan) string {
	if plan != nil && len(plan.Kinds) == 1 {
		return pod.Pod
	}
	return fmt.Sprintf("%s (%s)", pod.Pod, pod.Kind)
}

// releaseExample is JSON for exactly these targets; the person adds by and reason.
func releaseExample(left []chaospod.LeftPod) string {
	var targets []string
	for _, pod := range left {
		if len(targets) < 10 && !slices.Contains(targets, pod.Target) {
			targets = append(targets, pod.Target)
		}
	}
	// Names of Kubernetes objects need no escaping, and encoding/json is not
	// deterministic enough for workflowcheck.
	return fmt.Sprintf("{\n  \"action\": %q,\n  \"targets\": [\"%s\"],\n  \"by\": \"your name\",\n  \"reason\": \"why it may stay\"\n}",
		contract.ActionRelease, strings.Join(targets, `", "`))
}

// advice is the hint that kubectl describe shows.
func advice(ref v1beta1.DisruptionRef) string {
	return fmt.Sprintf(`Fix the node, then send the update "resume" with {"action":"retry"} to workflow %s; or delete the target pod`, contract.WorkflowID(ref))
}
