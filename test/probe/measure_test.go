package main

import (
	"testing"
	"time"
)

func TestWorkIsNeitherIdleNorStolen(t *testing.T) {
	got, err := parseWork("cpu  100 20 30 9999 8888 4 6 7777 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
	if err != nil || got != 1600*time.Millisecond {
		t.Errorf("parseWork() = %s, %v, want 1.6s", got, err)
	}
	for _, bad := range []string{"", "cpu 1 2", "cpu0 1 2 3 4 5 6 7", "cpu a 2 3 4 5 6 7"} {
		if _, err := parseWork(bad); err == nil {
			t.Errorf("parseWork(%q) is no error", bad)
		}
	}
}
