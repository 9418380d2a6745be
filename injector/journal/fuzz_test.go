//go:build linux

package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A journal may be truncated, or be of another version. Reading it gives an error or a
// record, and it stays until it is cleaned.
func FuzzRecord(f *testing.F) {
	golden, err := os.ReadFile("testdata/record.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden)
	f.Add(golden[:len(golden)/2])
	f.Add([]byte("null"))
	f.Add([]byte(`{"changes":[{"object":"x"}],"containers":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "d_t_network-disruption.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		entries, err := List(dir)
		if err != nil || len(entries) != 1 {
			t.Fatalf("list = %v, %v, want one journal", entries, err)
		}
		opened, err := Reopen(dir, v1beta1.Injection{
			Disruption: v1beta1.DisruptionRef{UID: "d"}, Target: v1beta1.InjectionTarget{UID: "t"}, Kind: v1beta1.KindNetwork,
		})
		if err == nil {
			opened.Close()
		}
		if (entries[0].Err == nil) != (err == nil) {
			t.Errorf("list says %v, to open it %v", entries[0].Err, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("reading took it away: %v", err)
		}
	})
}
