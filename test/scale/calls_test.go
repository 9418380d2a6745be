package scale

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

// calls counts API calls, by verb and resource.
type calls map[string]int

// since are the calls that were made after before.
func (c calls) since(before calls) calls {
	made := calls{}
	for name, n := range c {
		if n != before[name] {
			made[name] = n - before[name]
		}
	}
	return made
}

// writes are the calls that may change something.
func (c calls) writes() calls {
	some := maps.Clone(c)
	maps.DeleteFunc(some, func(name string, _ int) bool {
		verb, _, _ := strings.Cut(name, " ")
		return verb == "GET" || verb == "LIST" || verb == "WATCH"
	})
	return some
}

func (c calls) total() (n int) {
	for _, count := range c {
		n += count
	}
	return n
}

// table shows the calls, and how many they are for each of n targets.
func (c calls) table(n int) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "\n  %-36s %6d  %6.3f", name, c[name], float64(c[name])/float64(n))
	}
	fmt.Fprintf(&b, "\n  %-36s %6d  %6.3f", "together, and per target", c.total(), float64(c.total())/float64(n))
	return b.String()
}

// meter tells the calls of Squall's programs from the test's own.
type meter struct {
	kube kubernetes.Interface // not counted

	mu  sync.Mutex
	own calls
}

// watched are the resources that nobody but the programs and the test uses.
var watched = []string{"pods", "configmaps", "events", "disruptions", "nodes", "namespaces"}

// RoundTripper counts the calls that go through it as the test's own.
func (m *meter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.own[nameOf(r)]++
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

// read are the calls of the programs so far.
func (m *meter) read(t *testing.T) calls {
	t.Helper()
	m.mu.Lock()
	own := maps.Clone(m.own)
	m.mu.Unlock()
	text, err := m.kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	made := calls{}
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
	delete(made, "WATCH pods") // counted when it ends
	return made
}

// settled reads until nobody calls any more.
func (m *meter) settled(t *testing.T) calls {
	t.Helper()
	var now calls
	eventually(t, time.Minute, "the API server has nothing to do", func() bool {
		before := m.read(t)
		<-time.After(500 * time.Millisecond)
		now = m.read(t)
		return maps.Equal(before, now)
	})
	return now
}

func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// eventually waits for a condition of the world.
func eventually(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(within)
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within %s: %s", within, what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
