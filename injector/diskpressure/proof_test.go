//go:build linux

package diskpressure

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rule E1: with files in the kernel's format, in both versions.
func TestWhatPassedTheLimits(t *testing.T) {
	limited := int64(1 << 20)
	for _, version := range []struct {
		name, file string
		limit      func(dir string) limit
		content    func(read, wrote string) string
	}{
		{"version 1", "blkio.throttle.io_service_bytes",
			func(dir string) limit {
				return limit{file: filepath.Join(dir, "blkio.throttle.read_bps_device"), device: "8:0"}
			},
			func(read, wrote string) string {
				return "7:0 Read 99999999\n8:0 Read " + read + "\n8:0 Write " + wrote + "\n8:0 Total 5\nTotal 99999999\n"
			}},
		{"version 2", "io.stat",
			func(dir string) limit { return limit{file: filepath.Join(dir, "io.max"), device: "8:0", key: "rbps"} },
			func(read, wrote string) string {
				return "7:0 rbytes=99999999 wbytes=1\n8:0 rbytes=" + read + " wbytes=" + wrote + " rios=1 wios=0\n"
			}},
	} {
		t.Run(version.name, func(t *testing.T) {
			dir := t.TempDir()
			counters := func(read, wrote string) {
				if err := os.WriteFile(filepath.Join(dir, version.file), []byte(version.content(read, wrote)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			i := &Injector{throttled: []limit{version.limit(dir), version.limit(dir)}}
			i.params.Throttling = v1beta1.DiskPressureThrottling{ReadBytesPerSec: &limited}
			want := func(state v1beta1.EffectState, evidence string) {
				t.Helper()
				got, figures, err := i.Prove(t.Context())
				if got != state || figures != evidence || err != nil {
					t.Errorf("Prove = %s, %q, %v, want %s, %q", got, figures, err, state, evidence)
				}
			}
			counters("1048576", "0")
			want(v1beta1.EffectNothingMatchedYet, "0.0 MiB read and 0.0 MiB written under the limits")
			counters("3145728", "1048576")
			want(v1beta1.EffectProven, "2.0 MiB read and 1.0 MiB written under the limits")
			// Ten times the limit is normal in ten seconds, and too much in one.
			i.throttled = i.throttled[:1]
			i.last.at = time.Now().Add(-10 * time.Second)
			counters("13631488", "1048576")
			want(v1beta1.EffectProven, "12.0 MiB read and 1.0 MiB written under the limits")
			i.last.at = time.Now().Add(-2 * time.Second)
			counters("113631488", "1048576")
			if got, figures, err := i.Prove(t.Context()); got != v1beta1.EffectIneffective || err != nil {
				t.Errorf("Prove = %s, %q, %v, want Ineffective", got, figures, err)
			}
		})
	}
}
