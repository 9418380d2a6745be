package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/activities/metric"
)

// Every counter of the activities is on the page before its first count. Prometheus takes
// the first value that it sees as the start, so an alert would miss the first stuck
// disruption.
func TestNumbersAreShownFromTheStart(t *testing.T) {
	_, page, err := newMetrics(zap.NewNop(), metric.All())
	if err != nil {
		t.Fatal(err)
	}
	text := shown(t, page)
	for _, c := range metric.All() {
		if want := "# HELP " + c.Name + " " + c.Help + "\n# TYPE " + c.Name + " counter\n"; !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
		lines := []string{c.Name + " 0"}
		if c.Label != "" {
			lines = nil
			for _, part := range c.Parts() {
				lines = append(lines, c.Name+"{"+c.Label+`="`+part+`"} 0`)
			}
		}
		if len(lines) == 0 {
			t.Errorf("%s has the label %s and no parts", c.Name, c.Label)
		}
		for _, line := range lines {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("the page has no line %q", line)
			}
		}
	}
}

// The activities' counters have no labels of the SDK; the SDK's counters have them.
func TestNumbersOfActivitiesAndOfTheSDK(t *testing.T) {
	handler, page, err := newMetrics(zap.NewNop(), metric.All())
	if err != nil {
		t.Fatal(err)
	}
	for _, activity := range []string{"CleanChaosPods", "Sweep"} {
		of := handler.WithTags(map[string]string{"activity_type": activity})
		of.WithTags(map[string]string{"result": "failed"}).Counter(metric.InjectorCleaned.Name).Inc(2)
		of.Counter(metric.Stuck.Name).Inc(1)
		of.Counter("temporal_request").Inc(1)
	}
	text := shown(t, page)
	for _, line := range []string{
		`squall_injector_cleaned_total{result="failed"} 4`, `squall_injector_cleaned_total{result="succeeded"} 0`, "squall_stuck_total 2",
		`temporal_request_total{activity_type="CleanChaosPods"} 1`, `temporal_request_total{activity_type="Sweep"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the page has no line %q:\n%s", line, text)
		}
	}
}

// shown is the text of a page, as Prometheus reads it.
func shown(t *testing.T, page http.Handler) string {
	t.Helper()
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatalf("the page answers %d: %s", answer.Code, answer.Body)
	}
	return answer.Body.String()
}
