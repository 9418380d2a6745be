//go:build e2e

// Package demo runs make demo as a user does and checks what it shows.
package demo

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestDemoShowsWhatItPromises(t *testing.T) {
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "demo")
	cmd.Dir = "../.."
	output, err := cmd.CombinedOutput()
	out := string(output)
	t.Logf("make demo took %.0f s and said:\n%s", time.Since(began).Seconds(), out)
	if err != nil {
		t.Fatalf("make demo: %v", err)
	}
	if strings.Contains(out, "WRONG") || !strings.Contains(out, "figures are as they should be") {
		t.Error("the demo itself says that something is wrong, or does not end as it should")
	}
	if strings.Contains(out, "\x1b[") {
		t.Error("there are colours, and this is no terminal")
	}
	wantLosses(t, out)
	wantCores(t, out)
	for what, pattern := range map[string]string{
		"restarts":             `after   \S+ was restarted [1-9]\d* times`,
		"the end by deletion":  `the Disruption and its finalizer are gone`,
		"no chaos pods":        `ok     0 of its chaos pods are left`,
		"no chaos pods at all": `ok     0 pods of these disruptions in squall-chaos`,
		"no records":           `ok     0 configmaps of these disruptions in squall-chaos`,
		"both nodes audited":   `(?s)was searched for marks.*was searched for marks`,
		"kubectl get dis":      `drop-packets +network-disruption +pod +2/2 +Injected`,
		"the end of it":        `drop-packets +network-disruption +pod +2/2 +PreviouslyInjected +Finished`,
		"the end by a probe":   `refuse-answers +network-disruption +pod .*Finished +Aborted`,
		"why it ended":         `ok     verdict Aborted after \d+ s, ending "aborted: `,
		"that all is back":     `ok     the pod answers again`,
		"links to Temporal":    `http://\S+/namespaces/default/workflows/disruption%2Fsquall-demo%2Fdrop-packets%2F\S+/history`,
		"seconds on each line": `(?m)^ +\d+\.\d s  `,
	} {
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("the demo does not show %s: nothing matches %s", what, pattern)
		}
	}
}

// wantLosses reads the figures again: none before and after, many on two of
// three pods during.
func wantLosses(t *testing.T, out string) {
	t.Helper()
	count := map[string]int{}
	for _, found := range regexp.MustCompile(`(before|during|after) +(\S+) +(\d+) % of the packets lost`).FindAllStringSubmatch(out, -1) {
		percent, _ := strconv.Atoi(found[3]) // the expression takes only digits
		switch {
		case percent < 5:
			count[found[1]+" none"]++
		case percent > 20 && percent < 60:
			count[found[1]+" many"]++
		default:
			t.Errorf("%s", found[0])
		}
	}
	for what, want := range map[string]int{"before none": 3, "during many": 2, "during none": 1, "after none": 3, "before many": 0, "after many": 0} {
		if count[what] != want {
			t.Errorf("%d pods with losses %q, want %d", count[what], what, want)
		}
	}
}

func wantCores(t *testing.T, out string) {
	t.Helper()
	cores := map[string]float64{}
	for _, found := range regexp.MustCompile(`(before|during|after) +(\S+) takes (\d\.\d\d) cores`).FindAllStringSubmatch(out, -1) {
		cores[found[1]], _ = strconv.ParseFloat(found[3], 64)
	}
	if len(cores) != 3 || cores["before"] > 0.1 || cores["during"] < 0.3 || cores["after"] > 0.1 {
		t.Errorf("cores = %v, want next to none before and after, and more than 0.3 during", cores)
	}
}
