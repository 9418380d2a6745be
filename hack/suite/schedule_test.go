package main

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestScheduleStaysWithinTheProcessors counts what runs at any moment.
func TestScheduleStaysWithinTheProcessors(t *testing.T) {
	var mu sync.Mutex
	var busy, most int
	var order []string
	work := func(name string, takes int, err error) job {
		return job{name, takes, func() error {
			mu.Lock()
			busy += takes
			most = max(most, busy)
			order = append(order, name)
			if takes >= processors && busy != takes {
				t.Errorf("%s runs beside %d tenths of others, want alone", name, busy-takes)
			}
			mu.Unlock()
			mu.Lock()
			busy -= takes
			mu.Unlock()
			return err
		}}
	}
	fault := errors.New("b has a fault")
	err := schedule([]job{work("a", 20, nil), work("b", 20, fault), work("c", 10, nil), work("d", 10, nil), work("e", 3, nil), work("f", 10, nil)}, processors)
	if !errors.Is(err, fault) {
		t.Errorf("schedule() = %v, want %v", err, fault)
	}
	if most > processors {
		t.Errorf("%d tenths ran at a time, want at most %d", most, processors)
	}
	if got := strings.Join(order, ""); !strings.HasPrefix(got, "ab") || len(got) != 6 {
		t.Errorf("ran %q, want all six, first a and then b", got)
	}
}

// TestScheduleRunsTwoAtATime would hang if the second waited for the first.
func TestScheduleRunsTwoAtATime(t *testing.T) {
	met := make(chan struct{})
	err := schedule([]job{
		{"first", 10, func() error { met <- struct{}{}; return nil }},
		{"second", 10, func() error { <-met; return nil }},
	}, processors)
	if err != nil {
		t.Error(err)
	}
}

func TestScheduleRunsOneAtATimeOnOneProcessor(t *testing.T) {
	var busy, most atomic.Int32
	work := func() error {
		most.Store(max(most.Load(), busy.Add(1)))
		busy.Add(-1)
		return nil
	}
	if err := schedule([]job{{"a", 10, work}, {"b", 10, work}, {"c", 10, work}}, processors/2); err != nil {
		t.Fatal(err)
	}
	if most.Load() != 1 {
		t.Errorf("%d jobs ran at a time on one free processor, want 1", most.Load())
	}
}
