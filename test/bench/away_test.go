package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/temporalserver"
	"github.com/squall-chaos/squall/test/world"
	"github.com/squall-chaos/squall/workflows/contract"
)

// The rule SquallAPIServerUnreachable in deploy/monitoring/alerts.yaml: a counter that has
// grown within alertWindow, for alertFor.
const (
	alertMetric = "squall_cleaning_unreachable_total"
	alertWindow = 10 * time.Minute
	alertFor    = 10 * time.Minute
	scrapeGap   = 5 * time.Second
)

// outage is a worker and a bridge that lose the API server while disruptions clean up.
type outage struct {
	bench
	relay   *relay
	people  *inbox
	metrics string // address of the worker's metrics
	alert   alert
	stuck   int64 // the most disruptions that Temporal has called stuck at one time
	// kubelets start programs again that end by themselves.
	kubelets []*restarter
	away     bool
}

// restarter starts a program again as a kubelet does, after a pause that grows.
type restarter struct {
	*world.Program
	pause time.Duration
	due   time.Time
	times int
}

// A kubelet's pauses, without the 10 minutes after which it begins with the first again.
const (
	firstPause   = 10 * time.Second
	longestPause = 5 * time.Minute
)

func (r *restarter) look(now time.Time) {
	switch {
	case !r.Over():
		r.due = time.Time{}
	case r.due.IsZero():
		r.due = now.Add(r.pause)
		r.pause = min(max(2*r.pause, firstPause), longestPause)
	case now.After(r.due):
		r.Start()
		r.times++
		r.due = time.Time{}
	}
}

// apiAway measures which messages people receive when n disruptions end while the
// API server does not answer for so long. Temporal and the worker keep running.
func apiAway(t *testing.T, commit string, n int, lasts time.Duration) {
	here := machine(commit)
	w := world.Start(t)
	w.Patience = 20 * time.Minute // a clean-up retries every few minutes after a long outage
	o := &outage{relay: newRelay(w), people: newInbox(t), metrics: temporalserver.FreeAddress(t)}
	kubeconfig := "KUBECONFIG=" + w.Kubeconfig(o.relay.address)
	secret := filepath.Join(t.TempDir(), "secret")
	w.Must(os.WriteFile(secret, []byte("a secret"), 0o600))
	worker := w.Worker(kubeconfig, "SQUALL_METRICS_ADDRESS="+o.metrics, "SQUALL_NOTIFY_WEBHOOK_URL="+o.people.URL,
		"SQUALL_NOTIFY_WEBHOOK_SECRET_FILE="+secret)
	bridge := w.Bridge(kubeconfig, "SQUALL_LEADER_ELECTION=true", "SQUALL_LEADER_ELECTION_NAMESPACE="+w.Chaos)
	o.bench = bench{World: w, worker: worker.Start(), bridge: bridge.Start(), machine: here, made: new(int)}
	o.kubelets = []*restarter{{Program: worker}, {Program: bridge}}
	o.Targets(n)
	var all []*v1beta1.Disruption
	for range n {
		d := o.disruption(1)
		d.Spec.Duration = &v1beta1.Duration{Duration: 90 * time.Second}
		all = append(all, o.Create(d))
	}
	for _, d := range all {
		o.Injected(d)
	}
	logf("%s are injected; the API server goes away for %s", disruptions(n), lasts)
	returned := o.without(all, lasts)
	publish(t, o.section(n, lasts, returned))
}

// without has the API server away for so long, from before the disruptions end, and returns
// how long after its return the last of them was over.
func (o *outage) without(all []*v1beta1.Disruption, lasts time.Duration) time.Duration {
	o.Helper()
	o.people.forget()
	o.relay.cut()
	o.away = true
	o.watch(time.Now().Add(lasts), func() bool { return false })
	o.away = false
	o.relay.reopen()
	back := time.Now()
	logf("the API server is back")
	finished := func() bool {
		for _, d := range all {
			if !o.See(d) || d.Status.Phase != v1beta1.PhaseFinished {
				return false
			}
		}
		return true
	}
	o.watch(back.Add(o.Patience), finished)
	if !finished() {
		o.Fatalf("%s after its return not all disruptions are finished: %s", o.Patience, o.phases(all))
	}
	took := time.Since(back)
	for _, d := range all {
		o.Delete(d)
		o.Completed(d)
	}
	return took
}

// watch looks at what people would see until then, or until it is over.
func (o *outage) watch(until time.Time, over func() bool) {
	o.Helper()
	tick := time.NewTicker(scrapeGap)
	defer tick.Stop()
	for printed := time.Now(); time.Now().Before(until) && !over(); <-tick.C {
		for _, kubelet := range o.kubelets {
			kubelet.look(time.Now())
		}
		o.alert.scrape(time.Now(), counterAt("http://"+o.metrics+"/metrics", alertMetric))
		answer, err := o.Workflows.CountWorkflow(o.Context(), &workflowservice.CountWorkflowExecutionsRequest{
			Query: contract.AttributeStuck + " = true AND ExecutionStatus = 'Running'",
		})
		o.Must(err)
		o.stuck = max(o.stuck, answer.GetCount())
		if o.away && time.Since(printed) > time.Minute {
			printed = time.Now()
			logf("away: %d failed attempts, alert %d times, %d messages, %d stuck", int(o.alert.last()), o.alert.fired, len(o.people.got()), o.stuck)
		}
	}
}

func (o *outage) phases(all []*v1beta1.Disruption) string {
	var counts []string
	for _, d := range all {
		counts = append(counts, d.Name+" "+string(d.Status.Phase))
	}
	return strings.Join(counts, ", ")
}

func (o *outage) section(n int, lasts, returned time.Duration) section {
	o.Helper()
	var counts, wrong []string
	warnings := 0
	for _, m := range o.people.got() {
		counts = append(counts, m.reason)
		if m.severity == v1beta1.NotificationWarning || m.severity == v1beta1.NotificationError {
			warnings++
			wrong = append(wrong, fmt.Sprintf("%s %s: %s", m.severity, m.reason, m.text))
		}
	}
	return section{
		name: "away",
		lines: []line{
			{what: "messages to people of the outage, alerts included", value: float64(o.alert.fired + warnings), most: 1},
			{what: "disruptions called stuck", value: float64(o.stuck), most: 0},
		},
		notes: []string{
			fmt.Sprintf("%s ended in an outage of %g min. The worker failed %d attempts, and the alert fired %d times. All were finished %s after the return. The worker was started again %d times, the bridge %d times, with a kubelet's pauses.",
				disruptions(n), lasts.Minutes(), int(o.alert.last()), o.alert.fired, took(returned), o.kubelets[0].times, o.kubelets[1].times),
			"Messages of the disruptions themselves, from the outage on: " + counted(counts) + ". Of severity Warning or Error: " + counted(wrong) + ".",
			o.where(),
		},
	}
}

func disruptions(n int) string { return fmt.Sprintf("%s disruptions", thousands(int64(n))) }

// counted names each word once, with how often it comes.
func counted(counts []string) string {
	times, order := map[string]int{}, []string{}
	for _, word := range counts {
		if times[word]++; times[word] == 1 {
			order = append(order, word)
		}
	}
	for i, word := range order {
		order[i] = fmt.Sprintf("%d %s", times[word], word)
	}
	if len(order) == 0 {
		return "none"
	}
	return strings.Join(order, ", ")
}

// alert is the rule, evaluated at each scrape as Prometheus does.
type alert struct {
	samples []sampled
	// since is when the expression began to hold, zero while it does not.
	since  time.Time
	firing bool
	fired  int
}

type sampled struct {
	at    time.Time
	value float64
}

// scrape takes a value, which is below 0 where there is none.
func (a *alert) scrape(now time.Time, value float64) {
	if value >= 0 {
		a.samples = append(a.samples, sampled{now, value})
	}
	var first, last *sampled
	for i := range a.samples {
		if s := &a.samples[i]; now.Sub(s.at) <= alertWindow {
			if first == nil {
				first = s
			}
			last = s
		}
	}
	switch holds := first != nil && last.value > first.value; {
	case !holds:
		a.since, a.firing = time.Time{}, false
	case a.since.IsZero():
		a.since = now
	case !a.firing && now.Sub(a.since) >= alertFor:
		a.firing = true
		a.fired++
	}
}

func (a *alert) last() float64 {
	if len(a.samples) == 0 {
		return 0
	}
	return a.samples[len(a.samples)-1].value
}

// counterAt is the sum of a metric, or -1 if the server does not answer or lacks
// the metric.
func counterAt(url, name string) float64 {
	answer, err := (&http.Client{Timeout: time.Second}).Get(url)
	if err != nil {
		return -1
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return -1
	}
	sum, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 || fields[0] != name && !strings.HasPrefix(fields[0], name+"{") {
			continue
		}
		if value, err := strconv.ParseFloat(fields[1], 64); err == nil {
			sum, found = sum+value, true
		}
	}
	if !found {
		return -1
	}
	return sum
}

// inbox is where the worker's notifications arrive.
type inbox struct {
	*httptest.Server
	mu  sync.Mutex
	all []message
}

type message struct {
	reason   string
	severity v1beta1.NotificationType
	text     string
}

func newInbox(t testing.TB) *inbox {
	i := &inbox{}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *inbox) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var event struct {
		Data struct {
			Severity v1beta1.NotificationType `json:"notificationType"`
			Reason   string                   `json:"reason"`
			Message  string                   `json:"message"`
		} `json:"data"`
	}
	_ = json.NewDecoder(r.Body).Decode(&event) // what cannot be read counts as a message, too
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, message{event.Data.Reason, event.Data.Severity, event.Data.Message})
}

func (i *inbox) got() []message {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]message(nil), i.all...)
}

func (i *inbox) forget() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = nil
}
