package world

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestUnexplained(t *testing.T) {
	most := Calls{"POST pods": 1, "PUT disruptions/status": 2, "GET disruptions": 1}
	for name, c := range map[string]struct{ made, want Calls }{
		"as many as there may be":                      {Calls{"POST pods": 1, "PUT disruptions/status": 2, "GET disruptions": 1}, Calls{}},
		"fewer":                                        {Calls{"POST pods": 1}, Calls{}},
		"one too many":                                 {Calls{"PUT disruptions/status": 3}, Calls{"PUT/PATCH disruptions/status": 1}},
		"of a kind that there may not be":              {Calls{"GET configmaps": 2}, Calls{"GET configmaps": 2}},
		"a conflict, a read and the write again":       {Calls{"PUT-conflict disruptions/status": 1, "GET disruptions": 2, "PUT disruptions/status": 3}, Calls{}},
		"a conflict explains one of each":              {Calls{"PUT-conflict disruptions/status": 1, "GET disruptions": 3, "PUT disruptions/status": 4}, Calls{"GET disruptions": 1, "PUT/PATCH disruptions/status": 1}},
		"a conflict of another resource":               {Calls{"PUT-conflict pods": 1, "PUT disruptions/status": 3}, Calls{"PUT/PATCH disruptions/status": 1}},
		"a conflict does not explain another verb":     {Calls{"PUT-conflict pods": 1, "POST pods": 2}, Calls{"POST pods": 1}},
		"a conflict does not explain a read of others": {Calls{"PUT-conflict pods": 1, "GET disruptions": 2}, Calls{"GET disruptions": 1}},
		"a conflict, and a patch instead":              {Calls{"PUT-conflict disruptions/status": 1, "PUT disruptions/status": 2, "PATCH disruptions/status": 1}, Calls{}},
		"a patch too many":                             {Calls{"PUT disruptions/status": 2, "PATCH disruptions/status": 1}, Calls{"PUT/PATCH disruptions/status": 1}},
	} {
		if diff := cmp.Diff(c.want, c.made.Unexplained(most)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
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
