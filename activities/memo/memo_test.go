package memo

import (
	"runtime"
	"slices"
	"testing"
)

func TestMemoHoldsSoManyBytes(t *testing.T) {
	const size = 1 << 20
	m := New[int, []byte](16 * size)
	for key := range 1000 { // a thousand specs of a megabyte
		m.Add(key, make([]byte, size), size)
		m.Get(0)
	}
	var kept []int
	for key := range 1000 {
		if _, found := m.Get(key); found {
			kept = append(kept, key)
		}
	}
	if len(kept) != 15 || kept[0] != 0 || kept[1] != 986 {
		t.Errorf("kept %v, want the one that is used again and again, and the last", kept)
	}
	var used runtime.MemStats
	runtime.GC()
	if runtime.ReadMemStats(&used); used.HeapAlloc > 64*size {
		t.Errorf("%d bytes are in use, want no more than what is kept", used.HeapAlloc)
	}
	if m.held != 15*(size+overhead) || m.entries.Len() != 15 {
		t.Errorf("it counts %d bytes in %d entries, want 15 of %d", m.held, m.entries.Len(), size+overhead)
	}
}

func TestMemo(t *testing.T) {
	m := New[string, int](3 * overhead)
	kept := func() []string {
		var keys []string
		for _, key := range []string{"a", "b", "c"} {
			if _, found := m.Get(key); found {
				keys = append(keys, key)
			}
		}
		return keys
	}
	m.Add("a", 1, 0)
	m.Add("a", 2, 0)
	m.Add("b", 3, 0)
	if value, _ := m.Get("a"); value != 2 || !slices.Equal(kept(), []string{"a", "b"}) {
		t.Errorf("a is %d of %v, want the newer of a beside b", value, kept())
	}
	m.Remove("a")
	m.Remove("a")
	m.Add("c", 4, 1<<20)
	if got := kept(); !slices.Equal(got, []string{"b"}) || m.held != overhead {
		t.Errorf("kept %v, %d bytes, want b alone: one that never fits is not kept", got, m.held)
	}
}
