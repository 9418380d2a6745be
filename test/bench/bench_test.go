package bench

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/revision"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// These flags choose the measurements. The defaults take seconds and only show
// that the benchmark works.
var (
	numbers    = flag.String("targets", "1,10", "numbers of targets")
	parts      = flag.String("parts", "targets,waiting,aborts,people", "what is measured: targets, together, waiting, aborts, people, churn, large, away, cluster")
	kinds      = flag.Int("kinds", 1, "how many kinds of disruption each number of targets gets at most: 1 or 2")
	several    = flag.String("several", "1x10,10x10", "disruptions x targets of each that begin at once")
	runs       = flag.Int("runs", 1, "how often each is measured; 0: as often as suits the number of targets")
	start      = flag.Duration("start", 900*time.Millisecond, "how long a kubelet takes to start a pod, in the second table of together")
	end        = flag.Duration("end", 2*time.Second, "how long it takes to end one")
	idle       = flag.Int("idle", 5, "how many disruptions wait")
	sample     = flag.Duration("sample", time.Second, "how long the waiting ones are looked at")
	nodes      = flag.String("nodes", "1", "numbers of targets on real nodes")
	kills      = flag.Int("kills", 1, "how many injectors are killed on real nodes")
	held       = flag.Int("held", 1, "how many targets are held on real nodes")
	write      = flag.Bool("write", false, "write what was measured into docs/bench.md, and its picture")
	holdingFor = flag.Duration("holding", time.Second, "how long they are held while the processors are looked at")
	lost       = flag.Int("lost", 10, "how many targets a disruption has that a probe ends")
	aborts     = flag.Int("aborts", 1, "how many disruptions a probe ends")
	planned    = flag.Int("planned", 10, "how many pods match what squall plan is asked for")
	churned    = flag.Int("churned", 60, "how many pods of a workload come and go in one disruption")
	standing   = flag.Int("standing", 20, "how many pods that workload has at a time")
	batch      = flag.String("batch", "5", "how many of them are replaced at once, for each disruption")
	crowd      = flag.Int("crowd", 200, "how many pods there are in part large")
	crowded    = flag.Int("crowded", 10, "how many of them are targets")
	away       = flag.Duration("away", time.Minute, "how long the API server does not answer")
	ending     = flag.Int("ending", 2, "how many disruptions end meanwhile")
	profile    = flag.String("profile", "", "directory for profiles of the API server while 100 or more are created and deleted")
)

// bench is the world, and the programs that are measured in it.
type bench struct {
	*world.World
	worker, bridge *world.Program
	machine        string // as it was before anything was measured
	made           *int   // disruptions
}

// TestBench measures and publishes its figures part by part. It fails when
// something does not work. Slowness shows in the figures only.
func TestBench(t *testing.T) {
	commit, err := revision.Of(".", *write, "docs/bench.md", "docs/images/bench.svg")
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc([]string{"targets", "together", "waiting", "aborts", "people", "churn", "large"}, wanted) {
		control(t, commit)
	}
	if wanted("away") {
		t.Run("away", func(t *testing.T) { apiAway(t, commit, *ending, *away) })
	}
	if wanted("cluster") {
		t.Run("cluster", func(t *testing.T) { cluster(t, commit) })
	}
}

func wanted(part string) bool { return slices.Contains(strings.Split(*parts, ","), part) }

// control measures what needs no real kubelet, from few pods in the cluster to
// many, so that what a later part needs does not weigh on an earlier one.
func control(t *testing.T, commit string) {
	here := machine(commit)
	w := world.Start(t)
	w.Patience = 15 * time.Minute
	bridge := w.Bridge("SQUALL_LEADER_ELECTION=true", "SQUALL_LEADER_ELECTION_NAMESPACE="+w.Chaos)
	b := bench{World: w, worker: w.Worker(), bridge: bridge, machine: here, made: new(int)}
	small, large := split(*numbers, 150)
	var all []result
	if wanted("targets") {
		all = b.targets(t, small)
	}
	if wanted("together") {
		t.Run("together", func(t *testing.T) { b.in(t).together(*several) })
	}
	if wanted("waiting") && !t.Failed() {
		t.Run("waiting", func(t *testing.T) { b.in(t).waiting(*idle, *sample) })
	}
	if wanted("aborts") && !t.Failed() {
		t.Run("aborts", func(t *testing.T) { b.in(t).aborts(*lost, *aborts) })
	}
	if wanted("people") && !t.Failed() {
		t.Run("people", func(t *testing.T) { b.in(t).people(*planned, cmp.Or(*runs, enough)) })
	}
	if wanted("churn") && !t.Failed() {
		t.Run("churn", func(t *testing.T) { b.in(t).churn(*churned, *standing, *batch) })
	}
	if wanted("targets") {
		all = append(all, b.targets(t, large)...)
		publish(t, describe(all, b.where()))
		if *write && !t.Failed() {
			draw(t, all)
		}
	}
	if wanted("large") && !t.Failed() {
		t.Run("large", func(t *testing.T) { b.in(t).large(*crowd, *crowded) })
	}
}

// in is the same for a part of the test.
func (b bench) in(t *testing.T) bench {
	b.World = b.In(t)
	return b
}

// split sorts numbers into those up to a limit and those above.
func split(list string, limit int) (small, large []int) {
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			panic(fmt.Sprintf("-targets %s: %q is no number of targets", list, word))
		}
		if n <= limit {
			small = append(small, n)
		} else {
			large = append(large, n)
		}
	}
	return small, large
}

// fresh restarts the programs and passes one disruption of one target through
// them. After that connections stand and nothing is left of earlier measurements.
func (b bench) fresh() {
	b.Helper()
	b.worker.Kill()
	b.bridge.Kill()
	// The new bridge would wait for the end of the lease of the one that was killed.
	b.Must(b.Kube.CoordinationV1().Leases(b.Chaos).DeleteCollection(b.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	b.worker.Start()
	b.bridge.Start()
	d := b.Create(b.disruption(1))
	b.Injected(d)
	b.Delete(d)
}

// logf prints progress for people who wait.
func logf(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// publish prints a section of figures and, on request, writes it into the
// document.
func publish(t testing.TB, s section) {
	t.Helper()
	fmt.Printf("\n## %s\n\n%s\n", s.name, s)
	if !*write || t.Failed() {
		return
	}
	path := filepath.Join("..", "..", "docs", "bench.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	document, err := renew(string(text), s)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
}
