package world

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestForced(t *testing.T) {
	for name, c := range map[string]struct {
		made Calls
		want int
	}{
		"no conflict":                         {Calls{"POST pods": 1, "PUT disruptions/status": 2}, 0},
		"two conflicts":                       {Calls{"PUT-conflict disruptions/status": 1, "PATCH-conflict pods": 1, "GET pods": 9}, 6},
		"a resource whose name ends like one": {Calls{"GET disruptions-conflict": 1}, 0},
	} {
		if got := c.made.Forced(); got != c.want {
			t.Errorf("%s: %d calls are forced, want %d", name, got, c.want)
		}
	}
}

func TestMeterCountsEveryResource(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	add := func(text string) {
		t.Helper()
		file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
			_ = file.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	m := &Meter{log: log, calls: Calls{}, last: map[string]time.Time{}}
	add(`{"user":{"username":"floor"},"verb":"create","objectRef":{"resource":"pods"}}
{"user":{"username":"squall"},"verb":"list","requestURI":"/apis/x/v1/emergencystops?limit=500","objectRef":{"resource":"emergencystops","apiGroup":"x"}}
{"user":{"username":"squall"},"verb":"update","objectRef":{"resource":"leases","namespace":"a","name":"b"}}
{"user":{"username":"squall"},"verb":"update","objectRef":{"resource":"disruptions","subresource":"status"}}
{"user":{"username":"squall"},"verb":"create","objectRef":{"resource":"pods"}}
{"user":{"username":"squall"},"verb":"get","requestURI":"/version?timeout=32s"}
{"user":{"username":"squall"},"verb":"create","objectRef":{"resou`)
	first := m.Read(t)
	want := Calls{"LIST emergencystops": 1, "PUT leases": 1, "PUT disruptions/status": 1, "POST pods": 1, "GET /version": 1}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	add(`rce":"pods"},"stageTimestamp":"2026-11-23T10:00:00.250000Z"}` + "\n" + `{"user":{"username":"squall"},"verb":"patch","objectRef":{"resource":"leases"}}` + "\n")
	made := m.Read(t).Since(first)
	if diff := cmp.Diff(Calls{"POST pods": 1, "PATCH leases": 1}, made); diff != "" {
		t.Errorf("calls since then (-want +got):\n%s", diff)
	}
	if last := m.Last(t, "POST pods"); last.UnixMilli() != time.Date(2026, 11, 23, 10, 0, 0, 250e6, time.UTC).UnixMilli() {
		t.Errorf("the last POST was answered at %s", last)
	}
	add(`{"user":{"username":"squall"},"verb":"update","objectRef":{"resource":"disruptions","subresource":"status"},"responseStatus":{"code":409}}` + "\n" + `{"user":{"username":"squall"},"verb":"create","objectRef":{"resource":"events"},"responseStatus":{"reason":"AlreadyExists","code":409}}` + "\n")
	if diff := cmp.Diff(Calls{"PUT-conflict disruptions/status": 1, "POST events": 1}, m.Read(t).Since(first).Since(made)); diff != "" {
		t.Errorf("a conflict (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Calls{"POST pods": 1}, made.Work().Writes()); diff != "" {
		t.Errorf("writes but for leases (-want +got):\n%s", diff)
	}
}
