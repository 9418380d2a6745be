package main

import (
	"strings"
	"testing"
)

func TestLongStages(t *testing.T) {
	for name, c := range map[string]struct {
		chosen []string
		want   string
		err    string
	}{
		"one that needs no cluster":  {[]string{"matrix"}, "packages build matrix", ""},
		"one on the cluster":         {[]string{"soak"}, "packages build cluster images install soak down", ""},
		"two, in the order of parts": {[]string{"bench", "soak"}, "packages build cluster images install soak bench down", ""},
		"all":                        {nil, "packages build cluster images install uml diskfailure qemu race matrix figures devcluster mutants fuzz vulncheck campaign soak bench bench-large bench-churn release bench-cluster v2node down", ""},
		"one that there is not":      {[]string{"unit"}, "", "matrix, figures, devcluster, mutants, fuzz, vulncheck, campaign, soak, bench"},
	} {
		t.Run(name, func(t *testing.T) {
			stages, err := (&suite{}).longStages(c.chosen)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("longStages(%q): %v, want %q", c.chosen, err, c.err)
			}
			var names []string
			for _, st := range stages {
				names = append(names, st.name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("longStages(%q) = %s, want %s", c.chosen, got, c.want)
			}
		})
	}
}
