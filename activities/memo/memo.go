// Package memo caches the values that were used last, up to a number of bytes. Callers
// read a dropped value again.
package memo

import (
	"container/list"
	"sync"
)

// overhead is the size of an entry beside its value, in bytes.
const overhead = 512

// Memo keeps values by their keys. Several goroutines may use it.
type Memo[Key comparable, Value any] struct {
	mu sync.Mutex
	// most and held are in bytes.
	most, held int
	// entries begins with the entry that was used last.
	entries *list.List
	by      map[Key]*list.Element
}

type entry[Key comparable, Value any] struct {
	key   Key
	value Value
	bytes int
}

// New returns an empty Memo for at most most bytes.
func New[Key comparable, Value any](most int) *Memo[Key, Value] {
	return &Memo[Key, Value]{most: most, entries: list.New(), by: map[Key]*list.Element{}}
}

// Add keeps a value of that many bytes in place of an older one, and drops the least
// recently used ones until all fit. It does not keep a value that never fits.
func (m *Memo[Key, Value]) Add(key Key, value Value, bytes int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(m.by[key])
	if bytes+overhead > m.most {
		return
	}
	m.by[key] = m.entries.PushFront(entry[Key, Value]{key, value, bytes + overhead})
	m.held += bytes + overhead
	for m.held > m.most {
		m.remove(m.entries.Back())
	}
}

// Get returns a cached value.
func (m *Memo[Key, Value]) Get(key Key) (value Value, found bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	element := m.by[key]
	if element == nil {
		return value, false
	}
	m.entries.MoveToFront(element)
	return element.Value.(entry[Key, Value]).value, true
}

// Remove drops a value; a missing one is no error.
func (m *Memo[Key, Value]) Remove(key Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(m.by[key])
}

func (m *Memo[Key, Value]) remove(element *list.Element) {
	if element == nil {
		return
	}
	gone := m.entries.Remove(element).(entry[Key, Value])
	delete(m.by, gone.key)
	m.held -= gone.bytes
}
