package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTraces(t *testing.T) {
	const https = "https://collector:4318"
	for _, c := range []struct {
		name string
		Traces
		refused string
	}{
		{"off", Traces{Sampling: 1}, ""},
		{"encrypted", Traces{Endpoint: https, Sampling: 0.1}, ""},
		{"plain text that was asked for", Traces{Endpoint: "http://collector:4318", PlainText: true}, ""},
		{"plain text that was not", Traces{Endpoint: "http://collector:4318"}, "set traces-plain-text"},
		{"no URL", Traces{Endpoint: "collector:4318"}, "want a URL"},
		{"a password in it", Traces{Endpoint: "https://me:secret@collector"}, "traces-headers-file"},
		{"more than all", Traces{Sampling: 10}, "traces-sampling 10: want a share from 0 to 1"},
		{"headers from two places", Traces{Endpoint: https, Headers: "a=b", HeadersFile: "/f"}, "want one of them"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.Check()
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("Check = %v, want %q", err, c.refused)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%q says the password", err)
			}
		})
	}
}

func TestHeadersOfTraces(t *testing.T) {
	want := map[string]string{"authorization": "Bearer a=b", "x-team": "shop"}
	file := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(file, []byte("authorization=Bearer a=b\n\n x-team = shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []Traces{{Headers: "authorization=Bearer a=b,x-team=shop"}, {HeadersFile: file}} {
		got, err := from.ReadHeaders()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("ReadHeaders of %+v: %v (-want +got):\n%s", from, err, diff)
		}
	}
	if _, err := (Traces{Headers: "a=b,secret"}).ReadHeaders(); err == nil || !strings.Contains(err.Error(), "entry 2 is not name=value") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error = %v, want one that names the entry and not its text", err)
	}
	if _, err := (Traces{HeadersFile: "/nowhere"}).ReadHeaders(); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("error = %v, want one that names the file", err)
	}
}
