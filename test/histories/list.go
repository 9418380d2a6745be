package histories

import "strconv"

// Released is how many generations of histories are frozen, each by a release:
// see docs/upgrades.md. make freeze counts it up.
const Released = 1

// Generation is the directory of workflows/testdata/histories into which
// histories are recorded.
var Generation = strconv.Itoa(Released + 1)

// Recorders of histories: the packages whose tests make them.
const (
	// Cluster is test/e2e: real kubelets and injectors.
	Cluster = "test/e2e"
	// Played are test/scale and test/survival: a real API server and Temporal,
	// played kubelets.
	Played = "test/world"
	// Stage is workflows: a real Temporal, and activities whose answers the test sets.
	Stage = "workflows"
)

// File is a recorded history.
type File struct {
	Name     string
	Recorder string
	// Paths must be in it, see Paths; ":3" at the end of one asks for three.
	Paths []string
}

// Files are all histories, each with one recorder.
var Files = []File{
	{"healthy", Cluster, []string{"local Prepare", "local SelectTargets", "local CreateChaosPods", "activity AwaitInjection", "activity WarnSpecChanged", "activity CleanChaosPods", "local Finish", "ended: deleted"}},
	{"expired", Cluster, []string{"timer fired", "activity ReportPhase", "ended: expired"}},
	{"deleted-while-injecting", Cluster, []string{"cancel AwaitInjection", "ended: deleted"}},
	{"healed", Cluster, []string{"activity CleanChaosPods:2", "activity VerifyNodes", "ended: deleted"}},
	{"eight-targets", Cluster, []string{"local CreateChaosPods", "activity CleanChaosPods", "ended: deleted"}},
	{"stuck-and-resumed", Cluster, []string{"activity CleanChaosPods:4", "update resume", "activity VerifyNodes"}},
	{"stuck-and-retried", Cluster, []string{"activity CleanChaosPods:4", "update resume"}},

	{"many-targets", Played, []string{"activity CreateChaosPods:3", "activity CleanChaosPods:3", "activity AwaitInjection:2", "ended: deleted"}},
	{"sweep", Played, []string{"activity SweepRecords", "activity SweepNodes"}},

	{"several-shards", Stage, []string{"activity CreateChaosPods:3", "activity CleanChaosPods:3", "ended: deleted"}},
	{"local-activities-failed", Stage, []string{"failed locally Prepare", "activity Prepare", "failed locally SelectTargets", "activity SelectTargets",
		"failed locally CreateChaosPods", "activity CreateChaosPods", "failed locally Finish", "activity Finish", "ended: deleted"}},
	{"activities-retried", Stage, []string{"retried CreateChaosPods", "retried CleanChaosPods", "ended: deleted"}},
	{"activity-failed", Stage, []string{"failed CreateChaosPods", "activity CleanChaosPods:3", "ended: failed: the record is broken"}},
	{"cancelled", Stage, []string{"cancelled by a person", "ended: cancelled"}},
	{"cancelled-while-creating", Stage, []string{"cancelled by a person", "cancel CreateChaosPods", "ended: cancelled"}},
	{"emergency-stop", Stage, []string{"signal end", "activity ReportPhase", "ended: emergency stop fire: payment is down"}},
	{"emergency-stop-before-creation", Stage, []string{"local CreateChaosPods", "ended: emergency stop fire: payment is down"}},
	{"clean-only", Stage, []string{"local Prepare", "activity CleanChaosPods", "ended: an earlier workflow began it"}},
	{"rejected", Stage, []string{"local Prepare", "activity CleanChaosPods", "local Finish", "ended: rejected"}},
	{"delayed", Stage, []string{"timer fired", "local SelectTargets", "ended: deleted"}},
	{"deleted-before-its-time", Stage, []string{"timer canceled", "signal end", "local Finish", "ended: deleted"}},
	{"target-replaced", Stage, []string{"signal observed", "local SelectTargets:2", "local CreateChaosPods:2", "activity AwaitInjection:3", "activity CleanChaosPods:3", "ended: deleted"}},
	{"static", Stage, []string{"signal observed", "local SelectTargets:1", "activity CleanChaosPods:2", "ended: deleted"}},
	{"ended-while-a-shard-waits", Stage, []string{"signal observed:2", "marker Version", "activity CleanChaosPods:5", "ended: deleted"}},
	{"another-shard-named", Stage, []string{"signal observed:3", "marker Version", "activity CleanChaosPods:4", "ended: deleted"}},
	{"looked-after-six-hours", Stage, []string{"timer fired", "activity CleanChaosPods:2", "ended: deleted"}},
	{"creation-timed-out", Stage, []string{"cancel CreateChaosPods", "timed out CreateChaosPods", "activity CleanChaosPods", "ended: deleted"}},
	{"no-target-at-first", Stage, []string{"signal observed", "local SelectTargets:2", "local CreateChaosPods", "ended: deleted"}},
	{"max-runs", Stage, []string{"signal observed", "local SelectTargets:1", "ended: deleted"}},
	{"spec-edited", Stage, []string{"signal observed", "activity WarnSpecChanged", "ended: deleted"}},
	{"failed-while-held-and-healed", Stage, []string{"signal observed", "timer fired", "activity CleanChaosPods:3", "ended: deleted"}},
	{"resumed-by-signal", Stage, []string{"signal resume:2", "activity ReportPhase", "ended: deleted"}},
	{"released", Stage, []string{"update resume", "activity VerifyNodes", "ended: deleted"}},
	{"not-verified", Stage, []string{"activity VerifyNodes", "local Finish", "ended: deleted"}},
	{"finish-found-a-chaos-pod", Stage, []string{"local Finish:2", "activity CleanChaosPods:2", "ended: deleted"}},
	{"pods-replaced", Stage, []string{"retried ReplacePods", "signal observed", "local SelectTargets:2", "activity CleanChaosPods", "ended: deleted"}},
	{"cancelled-while-replacing", Stage, []string{"cancelled by a person", "cancel ReplacePods", "activity CleanChaosPods", "ended: cancelled"}},
	{"replacement-stopped", Stage, []string{"activity ReplacePods", "ended: emergency stop fire: payment is down"}},
	{"replacement-failed", Stage, []string{"failed ReplacePods", "activity CleanChaosPods", "ended: failed: the record is broken"}},
	{"effects-awaited", Stage, []string{"activity AwaitEffects", "ended: deleted"}},
	{"services-followed", Stage, []string{"signal observed", "local FollowServices", "ended: deleted"}},
	{"targets-given", Stage, []string{"local OperateTargets:2", "signal observed:3", "local CreateChaosPods", "retried EndOperations", "local EndOperations:2", "ended: deleted"}},
	{"targets-not-given", Stage, []string{"local OperateTargets:2", "timer fired", "activity EndOperations", "local EndOperations", "ended: deleted"}},
	{"steady-state-not-reached", Stage, []string{"activity AskProbes", "signal probe", "timer fired", "cancel AskProbes", "activity ReportSteadyState",
		"ended: not steady: probe shop was not steady before: status 503"}},
	{"steady-state-lost", Stage, []string{"activity AskProbes:3", "signal probe:2", "cancel AskProbes", "activity ReportSteadyState:2", "ended: aborted: probe shop was lost: status 503"}},
	{"steady-state-recovered", Stage, []string{"activity AskProbes:3", "signal probe:2", "activity ReportSteadyState:2", "ended: enough"}},
	{"steady-state-passed", Stage, []string{"activity AskProbes:3", "signal probe", "activity ReportSteadyState", "ended: enough"}},
	{"steady-state-inconclusive", Stage, []string{"activity AskProbes:2", "signal probe", "ended: deleted"}},
	{"control-group", Stage, []string{"activity AskProbes:3", "signal probe", "cancel AskProbes", "ended: enough"}},
	{"prober-lost", Stage, []string{"activity AskProbes:4", "timed out AskProbes", "signal probe:2", "ended: enough"}},
	{"new-run-while-held", Stage, []string{"update resume", "signal end", "signal observed", "new run"}},
	{"carried-while-held", Stage, []string{"carried over", "activity CleanChaosPods", "ended: deleted"}},
	{"new-run-while-stuck", Stage, []string{"signal resume", "new run"}},
	{"carried-while-stuck", Stage, []string{"carried over", "activity CleanChaosPods", "ended: deleted"}},
	{"sweep-left-overs", Stage, []string{"activity SweepRecords", "activity SweepNodes:3"}},
	{"cron-began", Stage, []string{"activity BeginRun", "retried AwaitRun", "ended: expired"}},
	{"cron-held", Stage, []string{"activity BeginRun", "ended: "}},
	{"rollout-began", Stage, []string{"activity BeginRun", "retried AwaitRun", "ended: expired"}},
	{"scenario-branched", Stage, []string{"activity ReadScenario", "activity BeginStep:2", "activity SeeRuns:2", "signal settled", "timer fired", "update approve", "ended: "}},
	{"scenario-stopped", Stage, []string{"activity BeginStep", "signal end", "activity EndRuns", "activity SeeRuns", "ended: "}},
	{"scenario-refused", Stage, []string{"activity BeginStep", "activity ReportScenario:2", "ended: "}},
	{"scenario-lost", Stage, []string{"activity AskProbes", "signal probe", "activity BeginStep", "signal probe", "activity EndRuns", "activity AskProbes", "ended: "}},
	{"notified", Stage, []string{"child began-1", "not started began-1", "child injected-1", "child ending-1", "child stuck-1", "child resumed-1", "child finished-1", "ended: enough"}},
	{"rejected-and-notified", Stage, []string{"child rejected-1", "ended: rejected"}},
	{"notification-given-up", Stage, []string{"activity Notify:2", "retried Notify", "failed Notify", "activity GiveUpNotification", "ended: "}},
	{"sweep-failed", Stage, []string{"failed SweepRecords", "failed"}},
}
