package debian

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// machine makes PATH a directory with only the programs given, and an apt-get
// that notes how it is called and ends with the exit code given.
func machine(t *testing.T, code int, programs ...string) (calls func() string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	log := filepath.Join(dir, "calls")
	write := func(name, script string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range programs {
		write(name, "exit 0\n")
	}
	if code >= 0 {
		write("apt-get", fmt.Sprintf("echo \"$@\" >> %s; exit %d\n", log, code))
	}
	return func() string {
		content, _ := os.ReadFile(log) // not there if it was never called
		return string(content)
	}
}

var some = []Need{
	{Program: "ip", Package: "iproute2"},
	{Program: "iptables", Package: "iptables"},
	{Program: "ip6tables", Package: "iptables"},
	{File: "/nowhere/stdlib.h", Package: "libc6-dev"},
	{File: "/", Package: "base-files"},
	{Library: "libseccomp", Package: "libseccomp-dev"},
}

func TestInstall(t *testing.T) {
	for name, c := range map[string]struct {
		code     int
		programs []string
		needs    []Need
		calls    string
		err      string
	}{
		"what is missing is installed, each package once": {0, []string{"ip"}, some,
			"-o DPkg::Lock::Timeout=300 -q update\n-o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends iptables libc6-dev libseccomp-dev\n", ""},
		"a machine that has everything is asked nothing": {0, []string{"ip", "iptables"}, some[:2], "", ""},
		"apt-get fails":                                  {100, nil, some[:2], "-o DPkg::Lock::Timeout=300 -q update\n", "iproute2 iptables"},
		"a machine without apt-get: the way out":         {-1, nil, some[:2], "", "iproute2 iptables"},
		"a library that pkg-config knows is not missing": {0, []string{"pkg-config"}, some[5:], "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			calls := machine(t, c.code, c.programs...)
			err := Install(t.Context(), t.Logf, c.needs...)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("Install() = %v, want %q", err, c.err)
			}
			if got := calls(); got != c.calls {
				t.Errorf("apt-get was called with %q, want %q", got, c.calls)
			}
		})
	}
}
