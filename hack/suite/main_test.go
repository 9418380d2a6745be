package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Every stage runs alone, in its order, also after one that failed. A stage whose need
// failed does not.
func TestStagesRunInTheirOrder(t *testing.T) {
	for name, fails := range map[string]error{"all pass": nil, "the first fails": errors.New("it has a fault")} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			var ran []string
			suite := newSuite(".", &out)
			mark := func(name string, err error) stage {
				return stage{name: name, limit: time.Minute, run: func(context.Context, *counts) error {
					ran = append(ran, name)
					suite.logf("it runs")
					return err
				}}
			}
			needs := mark("needs", nil)
			needs.needs = []string{"first"}
			passed := suite.run(t.Context(), []stage{mark("first", fails), needs, mark("last", nil)})
			want := []string{"first", "needs", "last"}
			if fails != nil {
				want = []string{"first", "last"}
			}
			if passed != (fails == nil) || !slices.Equal(ran, want) {
				t.Errorf("passed %t, ran %v, want %v", passed, ran, want)
			}
			if fails != nil && !strings.Contains(out.String(), "--- first FAILED: it has a fault") {
				t.Errorf("printed %q, want why it failed", out.String())
			}
			// The end repeats it, because people see the end of a long output.
			last := out.String()[strings.LastIndex(out.String(), "stage"):]
			if fails != nil && !regexp.MustCompile(`^stage needs: not run: needs first\n$`).MatchString(last) {
				t.Errorf("ends with %q", last)
			}
			if fails != nil && !regexp.MustCompile(`\nstage first: it has a fault\n +\| .* it runs\n`).MatchString(out.String()) {
				t.Errorf("printed %q, want at the end why it failed and what it said last", out.String())
			}
		})
	}
}

// A stage needs none that comes after it: it would never run.
func TestStagesNeedWhatComesBefore(t *testing.T) {
	before := map[string]bool{}
	for _, st := range newSuite(".", nil).stages() {
		for _, need := range st.needs {
			if !before[need] {
				t.Errorf("%s needs %s, which does not come before it", st.name, need)
			}
		}
		before[st.name] = true
	}
}
