package disruption

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/crdbridge/condition"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

// Gauge is a number of what exists now. Only the bridge that leads reports it.
type Gauge struct {
	Name, Help string
	// Label distinguishes the parts of the number; empty: there is one part.
	Label string
}

// The gauges of the Disruptions in the cluster.
var (
	byPhase     = Gauge{"squall_disruptions", "Disruptions by phase. Finished ones count until they are deleted.", "phase"}
	unattended  = Gauge{"squall_disruptions_unattended", "Disruptions that Temporal or its workers leave alone, by the reason of the condition Orchestrated.", "reason"}
	stuck       = Gauge{"squall_disruptions_stuck", "Disruptions that wait for a person, because something could not be cleaned.", ""}
	failing     = Gauge{"squall_disruptions_injection_failing", "Disruptions that run and of whose targets one cannot be injected.", ""}
	ineffective = Gauge{"squall_disruptions_without_effect", "Disruptions that run and whose fault was seen not to act on some target.", ""}
	injected    = Gauge{"squall_targets_injected", "Targets that are injected now.", ""}
	away        = Gauge{"squall_temporal_unreachable", "1 while Temporal does not answer, else 0.", ""}
	noWorker    = Gauge{"squall_worker_missing", "1 while no worker polls Temporal, else 0.", ""}
	noProber    = Gauge{"squall_prober_missing", "1 while no program polls Temporal for probes, else 0.", ""}
)

// Gauges returns all gauges.
func Gauges() []Gauge {
	return []Gauge{byPhase, unattended, stuck, failing, ineffective, injected, away, noWorker, noProber}
}

// parts are the values of a gauge's label, all of which are always shown.
func (g Gauge) parts() (values []string) {
	switch g {
	case byPhase:
		for _, phase := range []v1beta1.Phase{v1beta1.PhasePending, v1beta1.PhaseSelecting, v1beta1.PhaseInjecting, v1beta1.PhaseHolding,
			v1beta1.PhaseCleaning, v1beta1.PhaseStuck, v1beta1.PhaseFinished, v1beta1.PhaseRejected} {
			values = append(values, string(phase))
		}
	case unattended:
		values = []string{condition.ReasonUnreachable, reasonRefused, condition.ReasonNoWorker, condition.ReasonNoProber, reasonTaskFailing, reasonEnded}
	default:
		values = []string{""}
	}
	return values
}

// sight is the values of the gauges, by the label's value, which is empty where there is no
// label.
type sight map[Gauge]map[string]float64

// count counts Disruptions.
func count(disruptions []v1beta1.Disruption) sight {
	seen := sight{}
	for _, gauge := range Gauges() {
		seen[gauge] = map[string]float64{}
		for _, value := range gauge.parts() {
			seen[gauge][value] = 0
		}
	}
	for i := range disruptions {
		seen.add(&disruptions[i])
	}
	return seen
}

func (s sight) add(d *v1beta1.Disruption) {
	phase := d.Status.Phase
	if phase == "" {
		phase = v1beta1.PhasePending
	}
	s[byPhase][string(phase)]++
	if why := falseFor(d, v1beta1.ConditionOrchestrated); why != "" {
		s[unattended][why]++
	}
	if d.Status.IsStuckOnRemoval {
		s[stuck][""]++
	}
	if phase == v1beta1.PhaseFinished || phase == v1beta1.PhaseRejected {
		return
	}
	if falseFor(d, v1beta1.ConditionInjected) == v1beta1.ReasonInjectionFailed {
		s[failing][""]++
	}
	if falseFor(d, v1beta1.ConditionEffectVerified) != "" {
		s[ineffective][""]++
	}
	s[injected][""] += float64(d.Status.InjectedTargetsCount)
}

// falseFor is the reason of a condition that is False; empty of any other.
func falseFor(d *v1beta1.Disruption, kind string) string {
	found := meta.FindStatusCondition(d.Status.Conditions, kind)
	if found == nil || found.Status != metav1.ConditionFalse {
		return ""
	}
	return found.Reason
}

// readPatience is how long a page waits for the cache, which is there when the bridge
// leads.
const readPatience = 5 * time.Second

// NewGauges returns the gauges of m's metrics page. Each scrape counts the objects in the cache.
func NewGauges(m manager.Manager, workflows *temporal.Workflows) prometheus.Collector {
	return gauges{cache: m.GetCache(), leads: m.Elected(), workflows: workflows}
}

type gauges struct {
	cache     client.Reader
	leads     <-chan struct{}
	workflows *temporal.Workflows
}

// Describe is part of a collector.
func (g gauges) Describe(out chan<- *prometheus.Desc) {
	for _, gauge := range Gauges() {
		out <- gauge.desc()
	}
}

// Collect is part of a collector. A bridge that does not lead watches nothing and reports
// nothing.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	select {
	case <-g.leads:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), readPatience)
	defer cancel()
	var all v1beta1.DisruptionList
	if err := g.cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return // the controllers do not run yet
	}
	seen := count(all.Items)
	seen[away][""] = one(g.workflows.Health.Err() != nil)
	seen[noWorker][""] = one(g.workflows.Problems.NoWorker())
	seen[noProber][""] = one(g.workflows.Problems.NoProber())
	for gauge, parts := range seen {
		for value, n := range parts {
			var values []string
			if gauge.Label != "" {
				values = []string{value}
			}
			out <- prometheus.MustNewConstMetric(gauge.desc(), prometheus.GaugeValue, n, values...)
		}
	}
}

func one(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

func (g Gauge) desc() *prometheus.Desc {
	var labels []string
	if g.Label != "" {
		labels = []string{g.Label}
	}
	return prometheus.NewDesc(g.Name, g.Help, labels, nil)
}
