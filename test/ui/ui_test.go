package ui

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

var (
	shots  = flag.String("shots", os.Getenv("SQUALL_UI_SHOTS"), "`directory` for screenshots of every step; empty: none is kept")
	record = flag.Bool("record", false, "renew the screenshots that docs/images has")
)

// story is one person's way through the web interface, and the world beside it.
type story struct {
	*cluster
	t          *testing.T
	page       *browser
	disruption *v1beta1.Disruption
	workflow   string // ID
	bad        corev1.Pod
}

// A disruption that is stuck on a real node is found through the inbox link,
// understood, and resolved in the browser alone (rules 44-46, 48).
func TestAPersonResolvesAStuckDisruption(t *testing.T) {
	s := begin(t)
	s.looksAtARunningDisruption()
	s.getsStuck()
	s.findsItInTheInbox()
	release := s.readsWhatIsWrong()
	s.isRefusedWithoutAReason()
	s.releasesIt(release)
	s.seesHowItEnded()
}

// begin prepares everything, or skips the test with what is missing.
func begin(t *testing.T) *story {
	t.Helper()
	program, err := chromium()
	if err != nil {
		missing(t, err)
	}
	c, err := newCluster(t.Context())
	if err != nil {
		missing(t, err)
	}
	t.Cleanup(c.temporal.Close)
	c.makeNamespace(t)
	s := &story{cluster: c, t: t, page: newBrowser(t, program, pictures(t))}
	c.startTargets(t)
	s.disruption = c.disrupt(t, "drop-payments")
	t.Cleanup(s.cleanUp)
	s.workflow = contract.WorkflowID(v1beta1.DisruptionRef{Namespace: c.namespace, Name: s.disruption.Name, UID: s.disruption.UID})
	c.await(t, s.disruption.Name, "injected", func(d *v1beta1.Disruption) bool { return d.Status.InjectionStatus == v1beta1.Injected })
	return s
}

// missing skips the test, where it must run it fails.
func missing(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// pictures is the directory for screenshots.
func pictures(t *testing.T) string {
	t.Helper()
	dir := *shots
	switch {
	case *record:
		dir = filepath.Join("..", "..", "docs", "images")
	case dir == "":
		return t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func (s *story) looksAtARunningDisruption() {
	s.t.Helper()
	s.page.open(s.link("workflows/" + url.PathEscape(s.workflow)))
	s.page.see("SelectTargets", "CreateChaosPods", "watch the injection", "the disruption's duration")
	s.page.shoot("running")
	s.page.click("tab", "User Metadata")
	s.page.see("Holding: "+s.namespace+"/"+s.disruption.Name, fmt.Sprintf("Disrupting %d targets until", len(s.nodes)))
	s.page.shoot("running-details")
}

// getsStuck kills an injector whose journal cannot be read, and ends the
// disruption.
func (s *story) getsStuck() {
	s.t.Helper()
	for _, pod := range s.chaosPods(s.t, s.disruption) {
		if pod.Labels[v1beta1.LabelTarget] == "checkout-0" {
			s.bad = pod
		}
	}
	s.onNode(s.t.Context(), s.t, s.bad.Spec.NodeName, probeImage, "/probe", "spoil", "--disruption", string(s.disruption.UID))
	s.killInjector(s.t, s.bad)
	if err := s.kube.Discovery().RESTClient().Delete().AbsPath(s.path(s.disruption.Name)).Do(s.t.Context()).Error(); err != nil {
		s.t.Fatal(err)
	}
	s.await(s.t, s.disruption.Name, "stuck", func(d *v1beta1.Disruption) bool { return d.Status.Phase == v1beta1.PhaseStuck })
}

// findsItInTheInbox opens the link that a team bookmarks.
func (s *story) findsItInTheInbox() {
	s.t.Helper()
	s.page.open(s.inbox())
	s.page.see(s.workflow)
	s.page.shoot("inbox")
	s.page.click("link", s.workflow)
	s.page.see("Timeline", "CleanChaosPods", "wait before the next clean-up")
	s.page.shoot("stuck")
}

// readsWhatIsWrong returns the JSON that the page offers for a release.
func (s *story) readsWhatIsWrong() string {
	s.t.Helper()
	s.page.click("tab", "User Metadata")
	title := s.namespace + "/" + s.disruption.Name
	s.page.seeAfresh("Cleaning: "+title, "Stuck: "+title) // it tries again when the cluster changes
	rows := s.page.rows()
	want := []string{s.bad.Name, s.bad.Spec.NodeName, "checkout-0"}
	if !slices.ContainsFunc(rows, func(row []string) bool {
		return len(row) == 4 && slices.Equal(row[:3], want) && strings.HasPrefix(row[3], "the cleaner failed too: ") && strings.Contains(row[3], "journal")
	}) {
		s.t.Errorf("the page's tables have the rows %q, want %q and the cleaner's words", rows, want)
	}
	offers := map[string]string{} // by action
	for _, block := range s.page.codeBlocks() {
		var resume contract.Resume
		if err := json.Unmarshal([]byte(block), &resume); err != nil {
			s.t.Errorf("what the page offers to paste is no JSON: %v\n%s", err, block)
		}
		offers[resume.Action] = block
	}
	if len(offers) != 2 || offers[contract.ActionRetry] == "" || offers[contract.ActionRelease] == "" {
		s.t.Fatalf("the page offers %q to paste, want a retry and a release", offers)
	}
	s.page.shoot("details")
	return offers[contract.ActionRelease]
}

// isRefusedWithoutAReason leaves the dialog open.
func (s *story) isRefusedWithoutAReason() {
	s.t.Helper()
	s.page.click("button", "More Actions")
	s.page.click("menuitem", "Send an Update")
	s.page.click("button", "Select an Update")
	s.page.click("option", contract.UpdateResume)
	s.page.replace("Data", "{\n  \"action\": \"release\"\n}")
	s.page.click("button", "Submit")
	s.page.see("Send an Update", `it needs "by" (who decides) and "reason" (why)`)
	s.page.shoot("refused")
	wantDecisions(s.t, "history, refused", nil, s.inHistory())
	if d, err := s.read(s.t.Context(), s.disruption.Name); err != nil || d == nil || len(d.Status.Resumes) > 0 {
		s.t.Errorf("refused, the disruption is %+v (%v), want it there with no decision in its status", d, err)
	}
}

// releasesIt copies the command that the page offered and adds name and reason.
func (s *story) releasesIt(release string) {
	s.t.Helper()
	last := s.watchStatus()
	filled := strings.NewReplacer("your name", "mira", "why it may stay", "the node is replaced tonight").Replace(release)
	s.page.replace("Data", filled)
	s.page.shoot("release")
	s.page.click("button", "Submit")
	eventually(s.t, func() string {
		if d, err := s.read(s.t.Context(), s.disruption.Name); err != nil || d != nil {
			return fmt.Sprintf("released, the disruption is still there (%v)", err)
		}
		return ""
	})
	if pods := s.chaosPods(s.t, s.disruption); len(pods) > 0 {
		s.t.Errorf("the disruption is gone and %d of its chaos pods are there", len(pods))
	}
	want := []contract.Resume{{Action: contract.ActionRelease, Targets: []string{"checkout-0"}, By: "mira", Reason: "the node is replaced tonight"}}
	wantDecisions(s.t, "history", want, s.inHistory())
	wantDecisions(s.t, "last status", want, <-last)
}

// seesHowItEnded looks at the result that stays when the disruption is gone.
func (s *story) seesHowItEnded() {
	s.t.Helper()
	s.page.open(s.link("workflows/" + url.PathEscape(s.workflow)))
	s.page.see("COMPLETED", "a person released 1 chaos pod", "release checkout-0 by mira: the node is replaced tonight")
	s.page.shoot("released")
	s.page.open(s.link("workflows?query=" + url.QueryEscape(fmt.Sprintf("%s = true AND %s = %q", contract.AttributeStuck, contract.AttributeNamespace, s.namespace))))
	s.page.seeAfresh(s.workflow, "No Workflows Found")
}

// inbox is the list of all that waits for a person. A terminated workflow stays
// marked as stuck, but waits no more.
func (s *story) inbox() string {
	return s.link("workflows?query=" + url.QueryEscape(contract.AttributeStuck+` = true AND ExecutionStatus = "Running"`))
}

func (s *story) link(rest string) string {
	return s.ui + "/namespaces/" + setting("TEMPORAL_NAMESPACE", "default") + "/" + rest
}
