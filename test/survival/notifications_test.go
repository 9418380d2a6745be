package survival

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/world"
)

// post is a webhook, and a Slack without any channel.
type post struct {
	mu   sync.Mutex
	away bool
	// refused and got are the reasons that did not, and did, arrive, each once, by the
	// ID of their notification.
	refused, got map[string]string
}

func (p *post) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/slack/") {
		_, _ = io.WriteString(w, `{"ok":false,"error":"channel_not_found"}`)
		return
	}
	var event struct {
		ID   string
		Data struct{ Reason string }
	}
	switch err := json.Unmarshal(body, &event); {
	case err != nil || event.ID != r.Header.Get("Webhook-Id"):
		w.WriteHeader(http.StatusBadRequest)
	case p.away:
		p.refused[event.ID] = event.Data.Reason
		w.WriteHeader(http.StatusInternalServerError)
	default:
		p.got[event.ID] = event.Data.Reason
	}
}

func (p *post) comesBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

// reasons are those of a map of p that are about an object.
func (p *post) reasons(of map[string]string, uid types.UID) (reasons []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, reason := range of {
		if strings.HasPrefix(id, string(uid)+"/") {
			reasons = append(reasons, reason)
		}
	}
	slices.Sort(reasons)
	return reasons
}

// TestNotifications (rules M2, M3): while the receiver is away the disruption is
// injected and cleaned as any other. The worker that tried to notify is killed,
// and all notifications arrive once the receiver is back. A final refusal becomes
// an event.
func TestNotifications(t *testing.T) {
	p := &post{away: true, refused: map[string]string{}, got: map[string]string{}}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := begin(t, 2, "SQUALL_NOTIFY_WEBHOOK_URL="+server.URL, "SQUALL_NOTIFY_WEBHOOK_SECRET_FILE="+secret, "SQUALL_NOTIFY_LEAST_TYPE=Info",
		"SQUALL_NOTIFY_SLACK_TOKEN_FILE="+secret, "SQUALL_NOTIFY_SLACK_URL="+server.URL+"/slack")
	d := s.Disruption("told", 2)
	d.Spec.Reporting = &v1beta1.Reporting{SlackChannel: "gone"}
	s.Create(d)
	s.Injected(d)
	world.Eventually(t, s.Patience, "it is tried to tell that it is injected", func() bool {
		return slices.Contains(p.reasons(p.refused, d.UID), "Injected")
	})
	s.Must(s.Disruptions.Delete(t.Context(), d.DeepCopy()))
	s.Vanishes(d)
	s.NothingLeft(d)
	if result := s.Completed(d); result.Ending != "deleted" {
		t.Errorf("result = %+v, want deleted", result)
	}
	if got := p.reasons(p.got, d.UID); len(got) > 0 {
		t.Errorf("told %q by a webhook that is away", got)
	}
	s.worker.Kill()
	p.comesBack()
	s.worker.Start()
	want := []string{"Began", "Ending", "Finished", "Injected"}
	// On a slow machine the pause before the next attempt has grown up to 5 minutes.
	world.Eventually(t, 6*time.Minute, "everything arrives", func() bool { return len(p.reasons(p.got, d.UID)) >= len(want) })
	if diff := cmp.Diff(want, p.reasons(p.got, d.UID)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	s.reportsTheLostReceiver(t, d.UID, "Injected")
	s.notifiesOfAScenario(t, p)
	if output := s.worker.Output(); strings.Contains(output, "a secret") {
		t.Error("the worker's log has the secret")
	}
}

func (s survival) reportsTheLostReceiver(t *testing.T, uid types.UID, reason string) {
	t.Helper()
	world.Eventually(t, s.Patience, "an event says who was not told", func() bool {
		events, err := s.Kube.CoreV1().Events(s.Shop).List(t.Context(), metav1.ListOptions{})
		s.Must(err)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "NotNotified" && e.InvolvedObject.UID == uid && e.Type == corev1.EventTypeWarning &&
				e.Message == "Slack channel gone was not notified of "+reason+": Slack (chat.postMessage) answered channel_not_found"
		})
	})
}

// notifiesOfAScenario wants notifications that a step waits for people, and how it
// ended.
func (s survival) notifiesOfAScenario(t *testing.T, p *post) {
	t.Helper()
	plan := &v1beta1.DisruptionScenario{ObjectMeta: metav1.ObjectMeta{Namespace: s.Shop, Name: "told"}, Spec: v1beta1.DisruptionScenarioSpec{
		Reporting: &v1beta1.Reporting{SlackChannel: "gone"},
		Steps:     []v1beta1.ScenarioStep{{Name: "look", Approval: &v1beta1.ScenarioApproval{Message: "is the shop open?"}}},
	}}
	s.Must(s.Disruptions.Create(t.Context(), plan))
	notified := func(want ...string) {
		world.Eventually(t, s.Patience, fmt.Sprintf("%q is told", want), func() bool { return slices.Equal(p.reasons(p.got, plan.UID), want) })
	}
	notified("ApprovalAwaited")
	s.reportsTheLostReceiver(t, plan.UID, "ApprovalAwaited")
	s.Must(s.Disruptions.Patch(t.Context(), plan.DeepCopy(), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+v1beta1.AnnotationApprovedBy+`look":"ann"}}}`))))
	notified("ApprovalAwaited", "Finished")
}
