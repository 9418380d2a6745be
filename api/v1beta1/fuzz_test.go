package v1beta1

import (
	"encoding/json"
	"strings"
	"testing"
)

// Any input of a user is read or refused. A value that was read can be written and read
// again unchanged.
func FuzzDecode(f *testing.F) {
	const head = "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: a}\nspec: "
	for _, spec := range []string{
		"{selector: {app: a}, count: 10%, duration: 5m, network: {drop: 40, hosts: [{host: 10.0.0.0/8, port: 80}]}}",
		"{selector: {app: a}, count: 1, pulse: {activeDuration: 1s, dormantDuration: 1s}, cpuPressure: {count: 50%}}",
		"{count: 1, duration: 10, dns: {records: [{hostname: a, record: {type: A, value: RANDOM}}]}}",
		"{triggers: {inject: {notBefore: 2026-11-20T15:00:00Z}}, diskFailure: {paths: [/a], probability: 5%}}",
		"null", "[", "{}\n---\n{}",
	} {
		f.Add(head + spec)
	}
	f.Fuzz(func(t *testing.T, manifest string) {
		d, err := Decode([]byte(manifest))
		if err != nil {
			return
		}
		d.Default()
		d.Validate()
		written, err := json.Marshal(d)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Decode(written)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, written)
		}
		if rewritten, err := json.Marshal(again); err != nil || string(rewritten) != string(written) {
			t.Errorf("written again it is another one, %v:\n%s\n%s", err, written, rewritten)
		}
	})
}

// A host that is accepted is a name, an address or a CIDR, and is of one line.
func FuzzHost(f *testing.F) {
	for _, host := range []string{"", "10.0.0.1", "10.0.0.0/99", "2001:db8::/32", "::ffff:1.2.3.4", "fe80::1%eth0", "db.example.com", "a/b", "1.2.3", "\x00"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if hostProblem(host) == "" && strings.ContainsAny(host, " \n\t%@\\\x00") {
			t.Errorf("host %q is accepted", host)
		}
	})
}

func FuzzDuration(f *testing.F) {
	for _, text := range []string{`"5m"`, `10`, `""`, `"1h30m0.5s"`, `-1`, `1e3`, `"9223372036854775807ns"`, `null`, `{}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var d, again Duration
		if json.Unmarshal([]byte(text), &d) != nil {
			return
		}
		written, err := json.Marshal(d)
		if err != nil || json.Unmarshal(written, &again) != nil || again != d {
			t.Errorf("%s is %s, written %s, read again %s, %v", text, d.Duration, written, again.Duration, err)
		}
	})
}
