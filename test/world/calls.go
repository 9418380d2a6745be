package world

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Calls counts API calls, by verb and resource. A write that another one
// forestalled has a verb of its own, such as "PUT-conflict pods".
type Calls map[string]int

// conflict marks the verb of such a write.
const conflict = "-conflict"

// Forced is how many of the calls conflicts explain: each of the writes that failed,
// a read after it, and a write that is made instead.
func (c Calls) Forced() (n int) {
	for name, count := range c {
		if verb, _, _ := strings.Cut(name, " "); strings.HasSuffix(verb, conflict) {
			n += 3 * count
		}
	}
	return n
}

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
	return c.without(func(verb, _ string) bool { return verb == "GET" || verb == "LIST" || verb == "WATCH" })
}

// Work are all calls but those by which the bridge stays leader: these it makes
// every two seconds, whatever else it does.
func (c Calls) Work() Calls {
	return c.without(func(_, resource string) bool { return resource == "leases" })
}

func (c Calls) without(drop func(verb, resource string) bool) Calls {
	some := maps.Clone(c)
	maps.DeleteFunc(some, func(name string, _ int) bool {
		verb, resource, _ := strings.Cut(name, " ")
		return drop(verb, resource)
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

// Meter counts the calls of Squall's programs, of every resource. They are a
// user of their own, whose requests the API server writes into a log, beside others'.
type Meter struct {
	log string

	mu    sync.Mutex
	at    int64 // how far the log was read
	calls Calls
	last  map[string]time.Time // when a call was last answered, by its name
}

// Read are the calls of the programs so far. Watches are not among them: they
// are counted when they end.
func (m *Meter) Read(t testing.TB) Calls {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.read(); err != nil {
		t.Fatal(err)
	}
	return maps.Clone(m.calls)
}

// Last is when the last call of this name was answered, by the API server's clock;
// the zero time if there was none.
func (m *Meter) Last(t testing.TB, name string) time.Time {
	t.Helper()
	m.Read(t)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last[name]
}

func (m *Meter) read() error {
	file, err := os.Open(m.log)
	if err != nil {
		return fmt.Errorf("open the API server's audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	more, err := io.ReadAll(io.NewSectionReader(file, m.at, 1<<40))
	if err != nil {
		return fmt.Errorf("read the API server's audit log: %w", err)
	}
	for line := range strings.Lines(string(more)) {
		if !strings.HasSuffix(line, "\n") {
			return nil // still being written
		}
		c, err := callOf([]byte(line))
		if err != nil {
			return err
		}
		m.at += int64(len(line))
		if c.user != programsUser {
			continue
		}
		m.calls[c.name]++
		if c.answered.After(m.last[c.name]) {
			m.last[c.name] = c.answered
		}
	}
	return nil
}

// call is one that the API server wrote into its audit log.
type call struct {
	user, name string
	answered   time.Time
}

// callOf is the call of one line of an audit log.
func callOf(line []byte) (call, error) {
	var event struct {
		User           struct{ Username string } `json:"user"`
		StageTimestamp time.Time                 `json:"stageTimestamp"`
		Verb           string                    `json:"verb"`
		RequestURI     string                    `json:"requestURI"`
		ResponseStatus struct{ Code int }        `json:"responseStatus"`
		ObjectRef      *struct {
			Resource    string `json:"resource"`
			Subresource string `json:"subresource"`
		} `json:"objectRef"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return call{}, fmt.Errorf("decode a line of the API server's audit log: %w: %s", err, line)
	}
	verb := strings.ToUpper(event.Verb)
	if method, ok := map[string]string{"create": "POST", "update": "PUT"}[event.Verb]; ok {
		verb = method
	}
	// Of a creation the code means that the object exists. The log has no reason where
	// the client asked for metadata alone.
	if event.ResponseStatus.Code == http.StatusConflict && event.Verb != "create" {
		verb += conflict
	}
	c := call{user: event.User.Username, answered: event.StageTimestamp}
	if event.ObjectRef == nil { // what the API server can do, its version
		path, _, _ := strings.Cut(event.RequestURI, "?")
		c.name = verb + " " + path
		return c, nil
	}
	c.name = verb + " " + event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		c.name += "/" + event.ObjectRef.Subresource
	}
	return c, nil
}

// Settled reads until the programs have no more work.
func (m *Meter) Settled(t testing.TB) Calls {
	t.Helper()
	var now Calls
	Eventually(t, time.Minute, "the programs have nothing to do", func() bool {
		before := m.Read(t)
		<-time.After(500 * time.Millisecond)
		now = m.Read(t)
		return maps.Equal(before.Work(), now.Work())
	})
	return now
}
