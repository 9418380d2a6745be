package bench

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/world"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// What is measured. The defaults take seconds and only show that it works.
var (
	numbers = flag.String("targets", "1,10", "numbers of targets")
	parts   = flag.String("parts", "targets,together,waiting", "what is measured: targets, together, waiting, cluster")
	several = flag.String("several", "2x2", "disruptions x targets of each that begin at once")
	runs    = flag.Int("runs", 1, "how often each is measured; 0: as often as suits the number of targets")
	idle    = flag.Int("idle", 5, "how many disruptions wait")
	sample  = flag.Duration("sample", 2*time.Second, "how long the waiting ones are looked at")
	write   = flag.Bool("write", false, "write what was measured into docs/bench.md, and its picture")
	profile = flag.String("profile", "", "directory for profiles of the API server while 100 or more are created and deleted")
)

// bench is the world, and the programs that are measured in it.
type bench struct {
	*world.World
	worker, bridge *world.Program
	made           int // disruptions
}

// TestBench measures and says what it found. It fails when something does not
// work, not when something is slow: the lines say that.
func TestBench(t *testing.T) {
	var measured []section
	if wanted("targets") || wanted("together") || wanted("waiting") {
		measured = append(measured, control(t)...)
	}
	if wanted("cluster") {
		if s, ok := cluster(t); ok {
			measured = append(measured, s)
		}
	}
	for _, s := range measured {
		fmt.Printf("\n## %s\n\n%s", s.name, s)
	}
	if *write && !t.Failed() {
		publish(t, measured)
	}
}

func wanted(part string) bool { return slices.Contains(strings.Split(*parts, ","), part) }

// control measures what needs no real kubelet.
func control(t *testing.T) (measured []section) {
	w := world.Start(t)
	w.Patience = 15 * time.Minute
	b := &bench{World: w, worker: w.Worker(), bridge: w.Bridge()}
	where := surroundings(b)
	small, large := split(*numbers, 150)
	// From few pods in the cluster to many, so that what is there for the later
	// parts does not weigh on the earlier.
	var all []result
	if wanted("targets") {
		all = b.targets(small)
	}
	if wanted("together") {
		s := b.together(groups(*several))
		s.notes = append(s.notes, where)
		measured = append(measured, s)
	}
	if wanted("targets") {
		all = append(all, b.targets(large)...)
		s := describe(all)
		s.notes = append(s.notes, where)
		measured = append(measured, s)
		if *write && !t.Failed() {
			draw(t, all)
		}
	}
	if wanted("waiting") {
		s := b.waiting(*idle, *sample)
		s.notes = append(s.notes, where)
		measured = append(measured, s)
	}
	return measured
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

// fresh starts the programs anew and lets one disruption of one target pass
// through them, so that connections stand and nothing is left of what was
// measured before.
func (b *bench) fresh() {
	b.Helper()
	b.worker.Kill()
	b.bridge.Kill()
	b.worker.Start()
	b.bridge.Start()
	d := b.Create(b.disruption(1))
	b.Injected(d)
	b.Delete(d)
}

// say tells whoever waits what is being measured.
func say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

// publish puts what was measured where it is read.
func publish(t *testing.T, measured []section) {
	t.Helper()
	path := filepath.Join("..", "..", "docs", "bench.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	document := string(text)
	for _, s := range measured {
		if document, err = renew(document, s); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	if err := os.WriteFile(path, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
}
