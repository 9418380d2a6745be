package main

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
)

const replaced = "apiVersion: chaos.squall.dev/v1beta1\nkind: Disruption\nmetadata: {name: %s}\nspec: {selector: {app: web}, count: %s, cpuPressure: {}}\n"

func TestRunReplaces(t *testing.T) {
	l := newLive(t)
	replace := func(name string, args ...string) call {
		return do(t.Context(), fmt.Sprintf(replaced, name, "1"), append([]string{"run", "-", "--replace", "--detach", "--timeout", "20s"}, args...)...)
	}
	t.Run("nothing", func(t *testing.T) {
		l := l.in(t)
		l.want(replace("first"), console.ExitOK, "disruption "+l.Shop+"/first is created")
	})
	t.Run("one that has ended", func(t *testing.T) {
		l := l.in(t)
		ref := l.Disruption("ended", nil)
		l.becomes(ref, finished("expired"))
		ended := make(chan call, 1)
		go func() { ended <- replace("ended") }()
		l.deleting(ref)
		l.finalize(ref)
		l.want(<-ended, console.ExitOK, "disruption "+l.Shop+"/ended is created")
		now := &v1beta1.Disruption{}
		l.Must(l.Plain.Get().Namespace(l.Shop).Resource("disruptions").Name("ended").Do(t.Context()).Into(now))
		if now.UID == ref.UID {
			t.Error("it is the old one")
		}
	})
	t.Run("none that goes on", func(t *testing.T) {
		l := l.in(t)
		ref := l.Disruption("runs", nil)
		l.becomes(ref, holding)
		l.want(replace("runs"), console.ExitError, "has not ended and is not replaced: end it by squall -n "+l.Shop+" stop runs")
		if l.Get(ref).DeletionTimestamp != nil {
			t.Error("it was deleted")
		}
		l.becomes(ref, func(s *v1beta1.DisruptionStatus) { s.Phase, s.IsStuckOnRemoval = v1beta1.PhaseStuck, true })
		l.want(replace("runs"), console.ExitError, "is stuck and cannot be replaced: squall -n "+l.Shop+" status runs")
		l.finalize(ref)
	})
	t.Run("nothing by one that the API server refuses", func(t *testing.T) {
		l := l.in(t)
		ref := l.Disruption("kept", nil)
		l.becomes(ref, finished("expired"))
		l.may("ann", "squall-disruptions")
		l.want(replace("kept", "--as", "nobody"), console.ExitError, "forbidden")
		if l.Get(ref).DeletionTimestamp != nil {
			t.Error("it was deleted")
		}
		l.finalize(ref)
	})
}

func TestRunReplacesAScenario(t *testing.T) {
	l := newLive(t)
	s := l.scenario("day")
	replace := func() call { return do(t.Context(), plannedScenario, "run", "-", "--replace", "--detach") }
	l.scenarioBecomes("day", suspended)
	l.want(replace(), console.ExitError, "scenario "+l.Shop+"/day has not ended and is not replaced", "stop scenario/day")
	l.scenarioBecomes("day", `{"phase":"Finished","verdict":"Passed"}`)
	ended := make(chan call, 1)
	go func() { ended <- replace() }()
	l.Eventually("it is being deleted", func() bool { return l.getScenario("day").DeletionTimestamp != nil })
	l.finalizeScenario("day")
	l.want(<-ended, console.ExitOK, "scenario "+l.Shop+"/day is created")
	if l.getScenario("day").UID == s.UID {
		t.Error("it is the old one")
	}
}

// A run that stops waiting leaves the disruption as it is.
func TestRunWaitsNoLongerThanItMay(t *testing.T) {
	l := newLive(t)
	got := do(t.Context(), fmt.Sprintf(replaced, "slow", "1"), "run", "-", "--timeout", "1s")
	l.want(got, console.ExitError, "disruption "+l.Shop+"/slow did not end within --timeout and goes on", "squall -n "+l.Shop+" stop slow ends it")
	if got := l.squall("status", "slow", "-o", "json"); strings.Contains(got.out, "deletionTimestamp") {
		t.Error("it was deleted")
	}
	l.want(do(t.Context(), fmt.Sprintf(replaced, "both", "1"), "run", "-", "--timeout", "1s", "--detach"), console.ExitUsage, "leave one out")
	if err := l.Plain.Get().Namespace(l.Shop).Resource("disruptions").Name("both").Do(t.Context()).Error(); !apierrors.IsNotFound(err) {
		t.Errorf("a wrong command line creates a disruption: %v", err)
	}
}
