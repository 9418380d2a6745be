package world

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Calls counts API calls, by verb and resource.
type Calls map[string]int

// Since are the calls that were made after before.
func (c Calls) Since(before Calls) Calls {
	made := Calls{}
	for name, n := range c {
		if n != before[name] {
			made[name] = n - before[name]
		}
	}
	return made
}

// Writes are the calls that may change something.
func (c Calls) Writes() Calls {
	some := maps.Clone(c)
	maps.DeleteFunc(some, func(name string, _ int) bool {
		verb, _, _ := strings.Cut(name, " ")
		return verb == "GET" || verb == "LIST" || verb == "WATCH"
	})
	return some
}

// Total is how many they are.
func (c Calls) Total() (n int) {
	for _, count := range c {
		n += count
	}
	return n
}

// Table shows the calls, and how many they are for each of n targets.
func (c Calls) Table(n int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "\n  %-36s %6d  %6.3f", name, c[name], float64(c[name])/float64(n))
	}
	fmt.Fprintf(&b, "\n  %-36s %6d  %6.3f", "together, and per target", c.Total(), float64(c.Total())/float64(n))
	return b.String()
}

// Meter tells the calls of Squall's programs from the test's own.
type Meter struct {
	kube kubernetes.Interface // not counted

	mu  sync.Mutex
	own Calls
}

// watched are the resources that nobody but the programs and the test uses.
var watched = []string{"pods", "configmaps", "events", "disruptions", "nodes", "namespaces"}

// wrap counts the calls that go through it as the test's own.
func (m *Meter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		name := nameOf(r)
		_, resource, _ := strings.Cut(strings.Split(name, "/")[0], " ")
		if slices.Contains(watched, resource) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.own[name]++
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// nameOf is what the API server's metrics call a request.
func nameOf(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	if len(parts) == 0 {
		return r.Method
	}
	verb := r.Method
	switch {
	case verb == http.MethodGet && r.URL.Query().Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && len(parts) == 1:
		verb = "LIST"
	}
	resource := parts[0]
	if len(parts) > 2 {
		resource += "/" + parts[2]
	}
	return verb + " " + resource
}

var requests = regexp.MustCompile(`^apiserver_request_total\{(.*)\} (\S+)$`)

// Read are the calls of the programs so far. Watches are not among them: they
// are counted when they end.
func (m *Meter) Read(t testing.TB) Calls {
	t.Helper()
	m.mu.Lock()
	own := maps.Clone(m.own)
	m.mu.Unlock()
	text, err := m.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := Calls{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		found := requests.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		resource := label(found[1], "resource")
		if !slices.Contains(watched, resource) {
			continue // leases and the like: the API server's own housekeeping
		}
		if sub := label(found[1], "subresource"); sub != "" {
			resource += "/" + sub
		}
		count, err := strconv.ParseFloat(found[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		made[label(found[1], "verb")+" "+resource] += int(count)
	}
	for name, n := range own {
		made[name] -= n
	}
	maps.DeleteFunc(made, func(name string, _ int) bool { return strings.HasPrefix(name, "WATCH ") })
	return made
}

// Settled reads until nobody calls any more.
func (m *Meter) Settled(t testing.TB) Calls {
	t.Helper()
	var now Calls
	Eventually(t, time.Minute, "the API server has nothing to do", func() bool {
		before := m.Read(t)
		<-time.After(500 * time.Millisecond)
		now = m.Read(t)
		return maps.Equal(before, now)
	})
	return now
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
