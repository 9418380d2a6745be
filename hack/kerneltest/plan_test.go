package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct {
		kernel   string
		quick    bool
		tests    string
		packages []string
		want     string // packages and what is run of them
		wantErr  string
	}{
		"one package":                {kernel: "uml", packages: []string{"injector/network"}, want: "injector/network:"},
		"chosen tests":               {kernel: "uml", tests: "TestA", packages: []string{"injector/network"}, want: "injector/network:TestA"},
		"of a package with two rows": {kernel: "qemu", tests: "TestA", packages: []string{"injector"}, want: "injector:TestA"},
		"a package not in the plan":  {kernel: "uml", packages: []string{"kube"}, want: "kube:"},
		"no such kernel":             {kernel: "vax", wantErr: `there is no kernel "vax": want one of uml, qemu`},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := choose(c.kernel, c.quick, c.tests, c.packages)
			if fmt.Sprint(err) != c.wantErr && (err != nil || c.wantErr != "") {
				t.Fatalf("choose() = %v, want %q", err, c.wantErr)
			}
			var got []string
			for _, p := range m.packages {
				got = append(got, p.name+":"+p.run)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("choose() = %q, want %q", got, c.want)
			}
		})
	}
}

func TestQuickLeavesOut(t *testing.T) {
	for _, kernel := range []string{"uml", "qemu"} {
		m, err := choose(kernel, true, "", nil)
		if err != nil || len(m.packages) == 0 {
			t.Fatalf("choose() = %v, %v, want packages", m.packages, err)
		}
		for _, p := range m.packages {
			if p.run == "" || p.run == none {
				t.Errorf("%s: %s runs %q for every change, want some of its tests", kernel, p.name, p.run)
			}
		}
	}
}

func TestUMLIsNotTriedWhereItCannotRun(t *testing.T) {
	usual, large := []string{"fpu", "avx2"}, []string{"fpu", "avx2", "amx_tile"}
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"uml", usual, "uml"}, {"uml", large, ""}, {"qemu", large, "qemu"}, {"any", usual, "uml"}, {"any", large, "qemu"},
	} {
		got, err := named(c.name, c.flags, t.Logf)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s on a processor with %v: %q, %v, want %q", c.name, c.flags, got, err, c.want)
		}
	}
}
