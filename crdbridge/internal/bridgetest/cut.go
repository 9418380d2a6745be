package bridgetest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
)

// Cut is a network that loses the watch of one resource, for so long that the server can no
// longer resume it.
type Cut struct {
	resource string
	mu       sync.Mutex
	isDown   bool
	wasDown  bool
	again    bool // the resource was listed again
	open     []io.Closer
}

// NewCut returns one that is not down.
func NewCut(resource string) *Cut { return &Cut{resource: resource} }

// Before is for Traffic.Before.
func (c *Cut) Before(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if what := Describe(r); what != "WATCH "+c.resource && what != "LIST "+c.resource {
		return nil, nil
	}
	if c.isDown {
		return nil, errors.New("no route to host")
	}
	if c.wasDown && (r.URL.Query().Get("sendInitialEvents") == "true" || Describe(r) == "LIST "+c.resource) {
		c.again = true
	}
	if c.wasDown && !c.again {
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
		return &http.Response{
			StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(status)),
		}, nil
	}
	return nil, nil
}

// After is for Traffic.After.
func (c *Cut) After(r *http.Request, response *http.Response) {
	if Describe(r) != "WATCH "+c.resource {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isDown { // it was under way when the network went
		_ = response.Body.Close()
		return
	}
	c.open = append(c.open, response.Body)
}

// Down cuts the watch and refuses others.
func (c *Cut) Down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDown = true
	for _, body := range c.open {
		_ = body.Close()
	}
	c.open = nil
}

// Up lets the watches begin again.
func (c *Cut) Up() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isDown, c.wasDown = false, true
}

// ListedAgain is true once the resource was listed again.
func (c *Cut) ListedAgain() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.again
}
