package bridgetest

import (
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
)

// Traffic counts a bridge's requests to the API server, and can intercept them.
type Traffic struct {
	mu       sync.Mutex
	requests []string // "WATCH pods", "PATCH disruptions", ...
	// open and most count the watches of each resource: now, and the highest number at one
	// time.
	open, most map[string]int
	// Before may delay a request or answer it in the server's place.
	Before func(*http.Request) (*http.Response, error)
	// After may wrap what the server answered.
	After func(*http.Request, *http.Response)
}

func (f *Traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		f.mu.Lock()
		f.requests = append(f.requests, Describe(request))
		before, after := f.Before, f.After
		f.mu.Unlock()
		if before != nil {
			if response, err := before(request); response != nil || err != nil {
				return response, err
			}
		}
		response, err := next.RoundTrip(request)
		if err == nil && request.URL.Query().Get("watch") != "" {
			response.Body = f.watch(Describe(request), response.Body)
		}
		if err == nil && after != nil {
			after(request, response)
		}
		return response, err
	})
}

// watch counts a watch until its body is closed.
func (f *Traffic) watch(name string, body io.ReadCloser) io.ReadCloser {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open == nil {
		f.open, f.most = map[string]int{}, map[string]int{}
	}
	f.open[name]++
	f.most[name] = max(f.most[name], f.open[name])
	return &watched{body, sync.OnceFunc(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.open[name]--
	})}
}

type watched struct {
	io.ReadCloser
	closed func()
}

func (w *watched) Close() error {
	defer w.closed()
	return w.ReadCloser.Close()
}

// MostWatches is the highest number of watches of each resource at one time. A watch that
// replaced one that the server had ended is no second one.
func (f *Traffic) MostWatches() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.most)
}

// Intercept sets Before while a bridge runs.
func (f *Traffic) Intercept(before func(*http.Request) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Before = before
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Describe is the verb and the resource, such as "WATCH pods" or "LIST nodes".
func Describe(request *http.Request) string {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3 // apis/group/version
	}
	parts = parts[min(skip, len(parts)):]
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	verb := request.Method
	switch {
	case request.URL.Query().Get("watch") != "":
		verb = "WATCH"
	case verb == http.MethodGet && len(parts) == 1:
		verb = "LIST"
	}
	if len(parts) == 3 {
		return verb + " " + parts[0] + "/" + parts[2]
	}
	if len(parts) == 0 {
		return verb
	}
	return verb + " " + parts[0]
}

// Count is how many of the requests since the last Reset begin with one of prefixes.
func (f *Traffic) Count(prefixes ...string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, request := range f.requests {
		for _, prefix := range prefixes {
			if strings.HasPrefix(request, prefix) {
				n++
			}
		}
	}
	return n
}

// Writes is how many of the requests since the last Reset were writes.
func (f *Traffic) Writes() int { return f.Count("POST", "PUT", "PATCH", "DELETE") }

// Reset forgets the requests so far.
func (f *Traffic) Reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// All are the requests since the last Reset.
func (f *Traffic) All() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}
