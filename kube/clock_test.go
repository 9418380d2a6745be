package kube

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestTheClockIsThatOfTheAPIServer(t *testing.T) {
	var date func() string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil
		if text := date(); text != "" {
			w.Header().Set("Date", text)
		}
	}))
	t.Cleanup(server.Close)
	clock := &Clock{}
	client := &http.Client{Transport: clock.Wrap(http.DefaultTransport)}
	var none *Clock
	if off := time.Until(none.Now()).Abs(); off > time.Second {
		t.Errorf("without a clock it is %s off ours", off)
	}
	for _, test := range []struct {
		name string
		date func() string
		want time.Duration
	}{
		{"an hour ahead", func() string { return time.Now().Add(time.Hour).UTC().Format(http.TimeFormat) }, time.Hour},
		{"an answer without a date changes nothing", func() string { return "" }, time.Hour},
		{"nor does one that is none", func() string { return "yesterday" }, time.Hour},
		{"an hour behind", func() string { return time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat) }, -time.Hour},
		{"the same, as far as whole seconds tell", func() string { return time.Now().UTC().Format(http.TimeFormat) }, 0},
	} {
		date = test.date
		answer, err := client.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		off := time.Until(clock.Now())
		if test.want == 0 && clock.ahead.Load() != 0 || (off-test.want).Abs() > 10*time.Second {
			t.Errorf("%s: the clock is %s off ours, want %s", test.name, off, test.want)
		}
	}
}
