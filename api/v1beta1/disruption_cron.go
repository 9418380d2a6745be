package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// DisruptionCron disrupts a workload again and again, by a schedule. Each run is a
// Disruption named disruption-cron-NAME, which the cron owns: one at a time.
// Deleting the cron ends the run under way by cleaning.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=dicron,categories=chaos
// +kubebuilder:printcolumn:name=Schedule,type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name=Target,type=string,JSONPath=`.spec.targetResource.name`
// +kubebuilder:printcolumn:name=Paused,type=boolean,JSONPath=`.spec.paused`
// +kubebuilder:printcolumn:name=Scheduled,type=string,JSONPath=`.status.conditions[?(@.type=="Scheduled")].reason`,description="whether it runs, and why not"
// +kubebuilder:printcolumn:name=Last,type=string,JSONPath=`.status.lastScheduleTime`,description="the time of the schedule for which a disruption was created last"
// +kubebuilder:printcolumn:name=Next,type=string,JSONPath=`.status.nextScheduleTime`
// +kubebuilder:printcolumn:name=Verdict,type=string,JSONPath=`.status.history[-1:].verdict`,description="of the probes of the last run"
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Ending,type=string,JSONPath=`.status.history[-1:].ending`,priority=1,description="why the last run ended"
// +kubebuilder:printcolumn:name=LastRun,type=string,JSONPath=`.status.conditions[?(@.type=="LastRun")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 47",message="metadata.name is part of the name of every run, disruption-cron-NAME: use at most 47 characters",messageExpression="'metadata.name is part of the name of every run, disruption-cron-NAME: use at most 47 characters, not %d'.format([self.metadata.name.size()])"
type DisruptionCron struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to disrupt, and when. A change has an effect on the runs that
	// begin after it.
	Spec DisruptionCronSpec `json:"spec"`
	// Status is what ran last and runs next.
	Status DisruptionCronStatus `json:"status,omitempty"`
}

// DisruptionCronList is a list of crons.
//
// +kubebuilder:object:root=true
type DisruptionCronList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DisruptionCron `json:"items"`
}

// DisruptionCronSpec is what to disrupt, and when.
//
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || self.timeZone.size() == 0 || !self.schedule.matches('^ *(CRON_)?TZ=')",message="schedule begins with a time zone: remove it, or remove timeZone",fieldPath=".timeZone"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionTemplate.level) || self.disruptionTemplate.level != 'node'",message="targetResource stands for pods: set level to pod, or remove it",fieldPath=".disruptionTemplate.level"
// +kubebuilder:validation:XValidation:rule="!has(self.disruptionTemplate.triggers) || ((!has(self.disruptionTemplate.triggers.inject) || !has(self.disruptionTemplate.triggers.inject.notBefore)) && (!has(self.disruptionTemplate.triggers.createPods) || !has(self.disruptionTemplate.triggers.createPods.notBefore)))",message="notBefore is one moment, and the template is for many runs: use offset",fieldPath=".disruptionTemplate.triggers"
type DisruptionCronSpec struct {
	// Schedule has five fields: minute, hour, day of the month, month and day of the
	// week, such as "*/30 9-17 * * mon-fri". Or it is one of @hourly, @daily, @weekly,
	// @monthly, @yearly and "@every 90m". When both days are restricted, either of them
	// is enough. The time between two runs is at least a minute, or the setting
	// minimum-cron-frequency.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule=`self.matches('^\\s*((CRON_)?TZ=\\S+\\s+)?(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every\\s+\\S+|\\S+(\\s+\\S+){4})\\s*$')`,message="want five fields, minute, hour, day of the month, month and day of the week, such as \"0 12 * * mon-fri\", or @daily",messageExpression=`'"' + self + '": want five fields, minute, hour, day of the month, month and day of the week, such as "0 12 * * mon-fri", or @daily'`
	// +kubebuilder:validation:XValidation:rule=`!self.matches('(?i)^\\s*((CRON_)?TZ=\\S+\\s+)?\\S+\\s+\\S+\\s+((30|31)(,(30|31))*\\s+(0?2|feb)|31(,31)*\\s+(0?[2469]|11|feb|apr|jun|sep|nov)(,(0?[2469]|11|feb|apr|jun|sep|nov))*)\\s+[*?]\\s*$')`,message="it never fires: no month that it names has such a day",messageExpression=`'"' + self + '" never fires: no month that it names has such a day'`
	Schedule string `json:"schedule"`
	// TimeZone is the name of the zone in which the schedule is meant, such as
	// Europe/Berlin. Default UTC.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self == '' || (self != 'Local' && self.matches('^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*$'))`,message="want the name of a time zone, such as Europe/Berlin",messageExpression=`'"' + self + '": want the name of a time zone, such as Europe/Berlin'`
	TimeZone string `json:"timeZone,omitempty"`
	// Jitter delays each run by a random time of at most this, up to 1h. Default 0.
	//
	// +kubebuilder:validation:XValidation:rule=`type(self) == int ? self >= 0 && self <= 3600000000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || (duration(self) >= duration('0s') && duration(self) <= duration('1h')))`,message="want a duration of 0 to 1h",messageExpression=`string(self) + (type(self) == int ? 'ns' : '') + ': want a duration of 0 to 1h'`
	// +nullable
	Jitter *Duration `json:"jitter,omitempty"`
	// Paused begins no run. A running disruption continues. Default false.
	Paused bool `json:"paused,omitempty"`
	// DelayedStartTolerance is how late a run may begin, 0 or more. A run that cannot
	// begin by then, because Squall or Temporal was down, is skipped. Less than 10s
	// counts as 10s. Default 5m.
	//
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : !self.startsWith('-')",message="want a duration of 0 or more",messageExpression="string(self) + (type(self) == int ? 'ns' : '') + ' is negative: want a duration of 0 or more'"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self <= 0 || self >= 1000000 : (!self.matches('^([-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+))$') || duration(self) <= duration('0s') || duration(self) >= duration('1ms'))",message="want 0, or at least 1ms",messageExpression="type(self) == int ? string(self) + 'ns is shorter than 1ms; a number without a unit is nanoseconds: write ' + string(self) + 's' : self + ' is shorter than 1ms: want 0, or a duration such as 10s'"
	DelayedStartTolerance *Duration `json:"delayedStartTolerance,omitempty"`
	// TargetResource is the workload of this namespace whose pods are the targets.
	TargetResource TargetResource `json:"targetResource"`
	// DisruptionTemplate is the spec of each run. The labels by which the workload
	// selects its pods are added to its selectors, which may be empty.
	DisruptionTemplate DisruptionSpec `json:"disruptionTemplate"`
	// Reporting sends notifications about the runs whose template has none.
	//
	// +nullable
	Reporting *Reporting `json:"reporting,omitempty"`
}

// The kinds of a TargetResource.
const (
	TargetDeployment  = "deployment"
	TargetStatefulSet = "statefulset"
)

// TargetResource is a workload.
type TargetResource struct {
	// Kind is deployment or statefulset.
	//
	// +kubebuilder:validation:Enum=deployment;statefulset
	Kind string `json:"kind"`
	// Name of the workload.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// String is such as "deployment shop".
func (t TargetResource) String() string { return t.Kind + " " + t.Name }

// MostRuns is how many runs a history holds.
const MostRuns = 5

// DisruptionCronStatus is what ran last and runs next. The bridge writes
// nextScheduleTime and the condition Scheduled, activities write the rest.
type DisruptionCronStatus struct {
	// LastScheduleTime is the time of the schedule for which a disruption was
	// created last.
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// NextScheduleTime is when the next run is due, without jitter. Unset while it
	// is paused, or no run ever is.
	NextScheduleTime *metav1.Time `json:"nextScheduleTime,omitempty"`
	// TargetResourcePreviouslyMissing is since when the workload has been missing, as
	// far as runs have seen. Unset once one finds it.
	TargetResourcePreviouslyMissing *metav1.Time `json:"targetResourcePreviouslyMissing,omitempty"`
	// History are the last 5 runs, newest last.
	//
	// +kubebuilder:validation:MaxItems=5
	// +listType=atomic
	History []DisruptionRun `json:"history,omitempty"`
	// Conditions are Scheduled and LastRun.
	//
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DisruptionRun is one run in a history.
type DisruptionRun struct {
	// Name of the disruption.
	Name string `json:"name"`
	// Kind is Disruption.
	Kind string `json:"kind"`
	// UID of the disruption; all runs have one name.
	UID types.UID `json:"uid,omitempty"`
	// ScheduledAt is the time of the schedule that the run is for.
	ScheduledAt *metav1.Time `json:"scheduledAt,omitempty"`
	// CreatedAt is when the disruption was created.
	CreatedAt metav1.Time `json:"createdAt"`
	// EndedAt is when the run ended. Unset until then.
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// Ending is why it ended.
	Ending string `json:"ending,omitempty"`
	// Verdict is that of its probes. Empty without probes, and until it ended.
	Verdict Verdict `json:"verdict,omitempty"`
}

// Conditions of a DisruptionCron.
const (
	// ConditionScheduled is True while runs begin by the schedule. It is False with
	// the reason Paused, PausedInTemporal, InvalidSchedule or TooFrequent when none
	// does, and with TemporalUnreachable or TemporalRefused while Temporal does not
	// take the schedule. The bridge writes it.
	ConditionScheduled = "Scheduled"
	// ConditionLastRun is True when the last run that was due began, and False with
	// the reason why it did not: TooLate, Overlap, Paused, EmergencyStop, TargetMissing,
	// NameTaken or Refused.
	ConditionLastRun = "LastRun"
)

// Marks on the Disruption that is a run of a cron.
const (
	// LabelCron names its cron.
	LabelCron = "chaos.squall.dev/disruption-cron-name" // Disruption: name of its DisruptionCron
	// AnnotationScheduledAt is the time of the schedule that it is for, in RFC 3339.
	AnnotationScheduledAt = "chaos.squall.dev/scheduled-at" // Disruption: scheduled time of its run (RFC 3339)
	// CronChildPrefix and the cron's name are the name of its runs.
	CronChildPrefix = "disruption-cron-"
)

// CronFinalizer is on a DisruptionCron until its schedule and its run are gone.
const CronFinalizer = DisruptionFinalizer

// ChildName is the name of all runs: there is one at a time, since names are
// unique.
func (c *DisruptionCron) ChildName() string { return CronChildPrefix + c.Name }

// Owns is true for a run of this cron, and of no other that had its name.
func (c *DisruptionCron) Owns(d *Disruption) bool {
	owner := metav1.GetControllerOf(d)
	return owner != nil && owner.Kind == "DisruptionCron" && owner.UID == c.UID && d.Namespace == c.Namespace
}
