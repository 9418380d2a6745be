//go:build linux

package network

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Other programs write the file with the addresses of services. parseHosts returns its
// whole list of hosts, or an error.
func FuzzParseHosts(f *testing.F) {
	for _, seed := range []string{
		`[]`, `null`, `[{"host":"10.0.0.1","port":53,"protocol":"udp","flow":"egress"}]`, `[{"host":"10.0.0.0/8"},{"host":"::1"}]`,
		`[{"host":"10.0.0.1"}] [{"host":"10.0.0.2"}]`, `[{"host":"10.0.0.1","hots":1}]`, `[{"host":`, `{"host":"10.0.0.1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		hosts, err := parseHosts(text)
		if err != nil {
			return
		}
		if !json.Valid(text) {
			t.Fatalf("%q was read as %+v", text, hosts)
		}
		written, err := json.Marshal(hosts)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseHosts(written)
		if diff := cmp.Diff(hosts, again); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", written, err, diff)
		}
	})
}
