package report

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/view"
)

// The elements of JUnit that CI systems read.
type (
	junitSuites struct {
		XMLName  xml.Name     `xml:"testsuites"`
		Name     string       `xml:"name,attr"`
		Tests    int          `xml:"tests,attr"`
		Failures int          `xml:"failures,attr"`
		Errors   int          `xml:"errors,attr"`
		Skipped  int          `xml:"skipped,attr"`
		Time     string       `xml:"time,attr"`
		Suites   []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Properties []junitProperty `xml:"properties>property,omitempty"`
		Cases      []junitCase     `xml:"testcase"`
		Out        string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name    string       `xml:"name,attr"`
		Class   string       `xml:"classname,attr"`
		Time    string       `xml:"time,attr"`
		Failure *junitResult `xml:"failure,omitempty"`
		Error   *junitResult `xml:"error,omitempty"`
		Skipped *junitResult `xml:"skipped,omitempty"`
	}
	junitResult struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
	}
)

// JUnit returns the report as JUnit: a test suite for each Disruption, and one before
// them for a scenario.
func (r Report) JUnit() ([]byte, error) {
	all := junitSuites{Name: "squall run " + r.Title(), Time: seconds(r.Ended.Sub(r.Began))}
	if r.Scenario != nil || len(r.Disruptions) == 0 {
		all.Suites = append(all.Suites, r.own())
	}
	for _, d := range r.Disruptions {
		all.Suites = append(all.Suites, d.suite(r))
	}
	for i := range all.Suites {
		s := &all.Suites[i]
		s.count()
		all.Tests, all.Failures, all.Errors, all.Skipped = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors, all.Skipped+s.Skipped
	}
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	return append([]byte(xml.Header), append(text, '\n')...), nil
}

func (s *junitSuite) count() {
	s.Tests = len(s.Cases)
	for i := range s.Cases {
		c := &s.Cases[i]
		c.Class, c.Time = s.Name, cmp.Or(c.Time, seconds(0))
		switch {
		case c.Failure != nil:
			s.Failures++
		case c.Error != nil:
			s.Errors++
		case c.Skipped != nil:
			s.Skipped++
		}
	}
}

// own is the suite of a scenario, or of a run that has no disruption.
func (r Report) own() junitSuite {
	suite := junitSuite{Name: r.Title(), Time: seconds(r.Ended.Sub(r.Began)), Timestamp: timestamp(r.Began)}
	if s := r.Scenario; s != nil {
		suite.Properties = properties("requester", s.Requester, "outcome", string(r.Outcome))
		for _, step := range s.Steps {
			suite.Cases = append(suite.Cases, step.junit())
		}
		for _, p := range s.Probes {
			suite.Cases = append(suite.Cases, p.junit())
		}
	}
	suite.Cases = append(suite.Cases, verdictCase(r.Outcome, r.Why))
	return suite
}

func (s Step) junit() junitCase {
	c := junitCase{Name: "step " + s.Name}
	if s.StartedAt != nil && s.EndedAt != nil {
		c.Time = seconds(s.EndedAt.Sub(*s.StartedAt))
	}
	switch {
	case s.Phase == "" || s.Phase == string(v1beta1.ScenarioSkipped):
		c.Skipped = &junitResult{Message: "it did not begin"}
	case s.EndedAt == nil && s.Phase != string(v1beta1.ScenarioFinished):
		c.Error = &junitResult{Message: "it has not ended: " + s.Phase, Type: string(Unfinished)}
	case s.Verdict != "" && s.Verdict != string(v1beta1.VerdictPassed):
		c.Failure = &junitResult{Message: "the worst verdict of its disruptions is " + s.Verdict, Type: s.Verdict}
	}
	return c
}

func (d Disruption) suite(r Report) junitSuite {
	suite := junitSuite{Name: d.called(), Time: seconds(r.Ended.Sub(r.Began)), Timestamp: timestamp(r.Began), Out: d.account()}
	if begun, ended := d.StartedAt, d.CleanedAt; begun != nil && ended != nil {
		suite.Time, suite.Timestamp = seconds(ended.Sub(*begun)), timestamp(*begun)
	}
	suite.Properties = properties("uid", d.UID, "requester", d.Requester, "purpose", d.Purpose, "faults", strings.Join(d.Faults, ","),
		"effect", d.Effect, "ending", d.Ending, "outcome", string(d.Outcome))
	suite.Cases = append(suite.Cases, d.injected())
	for _, p := range d.Probes {
		suite.Cases = append(suite.Cases, p.junit())
	}
	suite.Cases = append(suite.Cases, d.cleanedUp(), verdictCase(d.Outcome, d.Why))
	return suite
}

func properties(namesAndValues ...string) (all []junitProperty) {
	for i := 0; i < len(namesAndValues); i += 2 {
		if namesAndValues[i+1] != "" {
			all = append(all, junitProperty{namesAndValues[i], namesAndValues[i+1]})
		}
	}
	return all
}

func (d Disruption) injected() junitCase {
	c := junitCase{Name: "injected"}
	if d.StartedAt != nil && d.InjectedAt != nil {
		c.Time = seconds(d.InjectedAt.Sub(*d.StartedAt))
	}
	switch {
	case d.DryRun:
		c.Skipped = &junitResult{Message: "dry run"}
	case d.InjectedAt != nil:
	case d.Outcome == Error:
		c.Error = &junitResult{Message: d.Why, Type: string(Error)}
	case d.Outcome == view.Passed:
		c.Skipped = &junitResult{Message: fmt.Sprintf("%d of %d targets were injected", d.Injected, d.Wanted)}
	default:
		c.Failure = &junitResult{Message: "not every target was injected: " + d.Why, Type: string(d.Outcome)}
	}
	return c
}

func (p Probe) junit() junitCase {
	c := junitCase{Name: "probe " + p.Name}
	text := cmp.Or(p.Text, "the state is "+p.State)
	if p.Failing > 0 {
		text = fmt.Sprintf("%d of %d targets fail: %s", p.Failing, p.Targets, text)
	}
	switch verdict := v1beta1.Verdict(p.Verdict); {
	case verdict == v1beta1.VerdictPassed:
	case verdict == v1beta1.VerdictFailed, verdict == v1beta1.VerdictAborted, verdict == "" && p.State == string(v1beta1.ProbeFailure):
		c.Failure = &junitResult{Message: text, Type: cmp.Or(p.Verdict, p.State)}
	case verdict == "" && p.State == string(v1beta1.ProbeSuccess):
	default:
		c.Skipped = &junitResult{Message: "there is no verdict: " + text}
	}
	return c
}

func (d Disruption) cleanedUp() junitCase {
	c := junitCase{Name: "cleaned up"}
	switch {
	case d.Outcome == view.IsStuck:
		c.Failure = &junitResult{Message: d.Why, Type: string(d.Outcome)}
	case d.LeftBehind != "":
		c.Failure = &junitResult{Message: d.LeftBehind, Type: "LeftBehind"}
	case d.Outcome == Error, d.Outcome == view.Rejected:
		c.Skipped = &junitResult{Message: "nothing was injected"}
	case !d.Cleaned:
		c.Error = &junitResult{Message: d.Why, Type: string(Unfinished)}
	}
	return c
}

// verdictCase fails unless the exit code is 0.
func verdictCase(outcome view.Outcome, why string) junitCase {
	c := junitCase{Name: "verdict"}
	switch outcome {
	case view.Passed:
	case Error, Unfinished:
		c.Error = &junitResult{Message: why, Type: string(outcome)}
	default:
		c.Failure = &junitResult{Message: why, Type: string(outcome)}
	}
	return c
}

// account is the text that a CI system shows as the output of a suite.
func (d Disruption) account() string {
	var lines []string
	for _, topic := range []struct {
		name  string
		lines []string
	}{{"what", d.What}, {"whom", d.WhichTargets}, {"how long", d.HowLong}} {
		for _, line := range topic.lines {
			lines = append(lines, topic.name+": "+line)
		}
	}
	for _, t := range d.Targets {
		line := fmt.Sprintf("target %s, %s: %s", t.Name, t.Fault, t.Status)
		for _, more := range []string{t.Effect, t.Evidence, t.Reason} {
			if more != "" {
				line += ", " + more
			}
		}
		lines = append(lines, line)
	}
	for _, m := range d.Timeline {
		lines = append(lines, fmt.Sprintf("%s %s, %d/%d injected", timestamp(m.Time), cmp.Or(m.Phase, "New"), m.Injected, m.Wanted))
	}
	return strings.Join(lines, "\n")
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(d, 0).Seconds()) }

func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05") }
