package notify

import (
	"encoding/json"
	"errors"
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
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/golden"
)

// secretText, tokenText and hidden must never be in an error.
const (
	secretText = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	tokenText  = "xoxb-0000-token"
	hidden     = "in-the-address"
)

var finished = Notification{
	ID: "6f1c/finished-1", Object: v1beta1.DisruptionRef{Namespace: "shop", Name: "half", UID: "6f1c", Cluster: "c0de"},
	Type: v1beta1.NotificationWarning, Reason: "Finished", Message: "2 targets disrupted, ended (expired), nothing is left.",
	Time: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), Phase: v1beta1.PhaseFinished, Ending: "expired",
	Kinds: []string{"network-disruption"}, Targets: 2, Verdict: v1beta1.VerdictFailed, Purpose: "to be sure of the retries, <!channel> & all", Requester: "ann <ann@example.com>",
}

// call is a request as the recipient received it.
type call struct {
	path, body string
	header     http.Header
}

// place is a recipient: a real server on this machine.
type place struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
}

// answering answers each call by the answer of its number, and further calls by the
// last one.
func answering(t *testing.T, answers ...http.HandlerFunc) *place {
	t.Helper()
	p := &place{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		answer := answers[min(len(p.calls), len(answers)-1)]
		p.calls = append(p.calls, call{r.URL.Path, string(body), r.Header})
		p.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func code(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, secretText)
	}
}

func body(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

func later(status int, after string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", after)
		w.WriteHeader(status)
	}
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sender notifies p, as a webhook and as Slack.
func sender(t *testing.T, p *place) *Activities {
	t.Helper()
	return &Activities{Settings: Settings{
		WebhookURL: p.URL + "/hook?token=" + hidden, WebhookSecretFile: file(t, secretText+"\n"),
		SlackTokenFile: file(t, tokenText+"\n"), SlackURL: p.URL + "/api/", Cluster: "prod",
	}}
}

// attempt makes one attempt, and checks the whole error for secrets.
func attempt(t *testing.T, a *Activities, to Recipient) error {
	t.Helper()
	err := a.Notify(t.Context(), Delivery{Notification: finished, To: to})
	for e := err; e != nil; e = errors.Unwrap(e) {
		for _, word := range []string{secretText, strings.TrimPrefix(secretText, "whsec_"), tokenText, hidden} {
			if strings.Contains(e.Error(), word) {
				t.Errorf("the error has a secret: %v", e)
			}
		}
	}
	return err
}

// forGood is true when no other attempt is made.
func forGood(err error) bool {
	failure, ok := errors.AsType[*temporal.ApplicationError](err)
	return ok && failure.NonRetryable()
}

var (
	toHook    = Recipient{Way: Webhook}
	toChannel = Recipient{Way: SlackChannel, To: "team-chaos"}
	toUser    = Recipient{Way: SlackUser, To: "ann@example.com"}
)

// rule M3: which answers are final, and which are retried.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name   string
		to     Recipient
		answer http.HandlerFunc
		want   string // of the error; empty: it was delivered
		over   bool   // no other attempt
		wait   time.Duration
	}{
		{"a webhook that takes it", toHook, code(202), "", false, 0},
		{"a webhook that is broken", toHook, code(500), "the webhook answered 500", false, 0},
		{"a webhook behind a broken gateway", toHook, code(502), "the webhook answered 502", false, 0},
		{"a webhook that is away for a time", toHook, later(503, "120"), "the webhook answered 503", false, 2 * time.Minute},
		{"a webhook that is asked too often", toHook, later(429, "7"), "the webhook answered 429", false, 7 * time.Second},
		{"one that says nothing sensible", toHook, later(429, "soon"), "the webhook answered 429", false, 0},
		{"one that wants a year", toHook, later(429, "31536000"), "the webhook answered 429", false, time.Hour},
		{"a webhook that took too long", toHook, code(408), "the webhook answered 408", false, 0},
		{"a webhook that does not want it", toHook, code(400), "the webhook answered 400", true, 0},
		{"a webhook that does not know us", toHook, code(401), "the webhook answered 401", true, 0},
		{"a webhook that is gone", toHook, code(410), "the webhook answered 410", true, 0},
		{"Slack takes it", toChannel, body(`{"ok":true}`), "", false, 0},
		{"Slack is asked too often", toChannel, later(429, "30"), "Slack (chat.postMessage) answered 429", false, 30 * time.Second},
		{"Slack has trouble", toChannel, body(`{"ok":false,"error":"internal_error"}`), "Slack (chat.postMessage) answered internal_error", false, 0},
		{"Slack does not know the channel", toChannel, body(`{"ok":false,"error":"channel_not_found"}`), "Slack (chat.postMessage) answered channel_not_found", true, 0},
		{"Slack does not know the token", toChannel, body(`{"ok":false,"error":"invalid_auth"}`), "Slack (chat.postMessage) answered invalid_auth", true, 0},
		{"Slack says our token", toChannel, body(`{"ok":false,"error":"` + tokenText + `"}`), "refused without a reason", true, 0},
		{"a server other than Slack", toChannel, body(secretText), "not JSON", false, 0},
		{"Slack does not know the user", toUser, body(`{"ok":false,"error":"users_not_found"}`), "Slack (users.lookupByEmail) answered users_not_found", true, 0},
		{"a way of a newer worker", Recipient{Way: "telex"}, code(200), "a newer worker does", false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := attempt(t, sender(t, answering(t, c.answer)), c.to)
			if c.want == "" {
				if err != nil {
					t.Errorf("not told: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || forGood(err) != c.over {
				t.Fatalf("error = %v, for good: %t; want %q, for good: %t", err, forGood(err), c.want, c.over)
			}
			if failure, ok := errors.AsType[*temporal.ApplicationError](err); ok && failure.NextRetryDelay() != c.wait {
				t.Errorf("the next attempt is to wait %s, want %s", failure.NextRetryDelay(), c.wait)
			}
		})
	}
}

// A date may stand in place of seconds.
func TestRetryAfterADate(t *testing.T) {
	in := func(d time.Duration) http.Header {
		return http.Header{"Retry-After": {time.Now().Add(d).UTC().Format(http.TimeFormat)}}
	}
	if got := retryAfter(in(30 * time.Minute)); got < 20*time.Minute || got > 30*time.Minute {
		t.Errorf("wait = %s, want half an hour", got)
	}
	if got := retryAfter(in(-time.Hour)); got != 0 {
		t.Errorf("wait = %s for a time that is over, want none", got)
	}
}

// rules M3, M4: after any failure, the next attempt has the same content under the same
// ID, and is signed.
func TestEachAttemptIsTheSameEventAndSigned(t *testing.T) {
	p := answering(t, code(500), code(500), code(200))
	a := sender(t, p)
	for range 3 {
		_ = attempt(t, a, toHook)
	}
	if len(p.calls) != 3 {
		t.Fatalf("%d calls, want 3", len(p.calls))
	}
	for _, c := range p.calls {
		if c.path != "/hook" || c.body != p.calls[0].body || c.header.Get("Webhook-Id") != finished.ID {
			t.Errorf("call %+v differs from the first", c)
		}
		at, err := time.ParseDuration(c.header.Get("Webhook-Timestamp") + "s")
		if err != nil {
			t.Fatal(err)
		}
		want, err := sign(secretText, finished.ID, time.Unix(int64(at.Seconds()), 0), []byte(c.body))
		if err != nil || c.header.Get("Webhook-Signature") != want {
			t.Errorf("signature %q, want %q, %v", c.header.Get("Webhook-Signature"), want, err)
		}
		if got := c.header.Get("Content-Type"); got != "application/cloudevents+json; charset=utf-8" {
			t.Errorf("content type %q", got)
		}
	}
	kept(t, "event.json", p.calls[0].body)
}

// A notification of a DisruptionScenario names it where a disruption would be.
func TestNotificationOfAScenario(t *testing.T) {
	p := answering(t, code(200), body(`{"ok":true}`))
	a := sender(t, p)
	n := Notification{
		ID: "6f1c/approvalawaited-1", Object: finished.Object, Kind: v1beta1.KindDisruptionScenario, Type: v1beta1.NotificationWarning,
		Reason: "ApprovalAwaited", Message: "Waits for an approval of step look.", Time: finished.Time, Requester: "ann",
	}
	for _, to := range []Recipient{toHook, {Way: SlackChannel, To: "team"}} {
		if err := a.Notify(t.Context(), Delivery{Notification: n, To: to}); err != nil {
			t.Fatal(err)
		}
	}
	kept(t, "scenario.json", p.calls[0].body)
	if want := "*Warning: ApprovalAwaited* scenario `shop/half` in cluster prod"; !strings.Contains(p.calls[1].body, want) {
		t.Errorf("Slack is told %s, want %s in it", p.calls[1].body, want)
	}
}

// The example in the specification of Standard Webhooks, which its libraries accept.
func TestSignatureOfTheStandard(t *testing.T) {
	got, err := sign(secretText, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("signature %q, %v; want %q", got, err, want)
	}
	plain, err := sign("a plain secret", "id", time.Unix(1, 0), nil)
	if err != nil || plain == got {
		t.Errorf("with a plain secret: %q, %v", plain, err)
	}
	if _, err := sign("whsec_!", "id", time.Unix(1, 0), nil); err == nil || !strings.Contains(err.Error(), SettingWebhookSecretFile) {
		t.Errorf("error = %v, want the setting in it", err)
	}
}

// rule M4
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := answering(t, body(`{"ok":true}`))
	for _, redirect := range []int{301, 302, 303, 307, 308} {
		p := answering(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, redirect) })
		for _, to := range []Recipient{toHook, toChannel, toUser} {
			if err := attempt(t, sender(t, p), to); err == nil || !forGood(err) || !strings.Contains(err.Error(), "not followed") {
				t.Errorf("%s by %d: %v, want it given up", to, redirect, err)
			}
		}
	}
	if len(elsewhere.calls) > 0 {
		t.Errorf("somebody else got %+v", elsewhere.calls)
	}
}

// A recipient that is unreachable, or never answers, is retried.
func TestARecipientThatDoesNotAnswer(t *testing.T) {
	asked := make(chan struct{}, 1)
	p := answering(t, func(_ http.ResponseWriter, r *http.Request) { asked <- struct{}{}; <-r.Context().Done() })
	a := sender(t, p)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(a)
	stopped := make(chan struct{})
	env.SetWorkerStopChannel(stopped)
	go func() { <-asked; close(stopped) }() // a worker that stops does not wait for an answer
	_, err := env.ExecuteActivity(a.Notify, Delivery{Notification: finished, To: toHook})
	if err == nil || forGood(err) || !strings.Contains(err.Error(), "context canceled") || strings.Contains(err.Error(), hidden) {
		t.Errorf("error = %v, want one that may pass", err)
	}
	p.CloseClientConnections()
	p.Close()
	for _, to := range []Recipient{toHook, toChannel} {
		if err := attempt(t, a, to); err == nil || forGood(err) || !strings.Contains(err.Error(), "cannot be reached") {
			t.Errorf("error = %v, want one that may pass", err)
		}
	}
}

func TestSlack(t *testing.T) {
	p := answering(t, body(`{"ok":true,"user":{"id":"U7"}}`))
	a := sender(t, p)
	for _, to := range []Recipient{toUser, toChannel} {
		if err := attempt(t, a, to); err != nil {
			t.Fatal(err)
		}
	}
	var bodies []string
	for _, c := range p.calls {
		bodies = append(bodies, c.path+" "+c.body)
		if c.header.Get("Authorization") != "Bearer "+tokenText {
			t.Errorf("call %s without the token", c.path)
		}
	}
	kept(t, "slack.txt", strings.Join(bodies, "\n"))
}

// A worker that lost its settings, by a rollout or a mistake, leaves the notification
// to the next.
func TestSettingsThatAreGone(t *testing.T) {
	gone := Settings{WebhookURL: "http://127.0.0.1:1", WebhookSecretFile: "/nowhere", SlackTokenFile: "/nowhere"}
	for _, s := range []Settings{{}, gone} {
		for _, to := range []Recipient{toHook, toChannel, toUser} {
			if err := attempt(t, &Activities{Settings: s}, to); err == nil || forGood(err) || !strings.Contains(err.Error(), "setting notify-") {
				t.Errorf("%s: %v, want an error that names the setting and may pass", to, err)
			}
		}
	}
	empty := Settings{WebhookURL: "http://127.0.0.1:1", WebhookSecretFile: file(t, "\n")}
	if err := attempt(t, &Activities{Settings: empty}, toHook); err == nil || !strings.Contains(err.Error(), "is empty") {
		t.Errorf("error = %v, want that there is no secret", err)
	}
}

// rule M5
func TestAudience(t *testing.T) {
	all := Settings{WebhookURL: "u", WebhookSecretFile: "f", SlackTokenFile: "t", SlackChannel: "ops", LeastType: v1beta1.NotificationWarning}
	team := &v1beta1.Reporting{SlackChannel: "team", SlackUserEmail: "ann@example.com", Purpose: "to be sure of it", MinNotificationType: "Info"}
	for _, c := range []struct {
		name      string
		settings  Settings
		reporting *v1beta1.Reporting
		want      []string
	}{
		{"nothing is set", Settings{}, nil, nil},
		{"nothing is set, and somebody asks for it", Settings{}, team, nil},
		{"a token, and nobody asks for it", Settings{SlackTokenFile: "t"}, nil, nil},
		{"a token, and nobody is named", Settings{SlackTokenFile: "t"}, &v1beta1.Reporting{Purpose: "to be sure of it"}, nil},
		{"a team that says nothing of types", Settings{SlackTokenFile: "t"}, &v1beta1.Reporting{SlackChannel: "team"}, []string{"Slack channel team from Success"}},
		{"the operator and a team", all, team, []string{"webhook from Warning", "Slack channel ops from Warning", "Slack channel team from Info", "Slack user ann@example.com from Info"}},
		{"both name one channel: once, and the more", all, &v1beta1.Reporting{SlackChannel: "ops", MinNotificationType: "Success"}, []string{"webhook from Warning", "Slack channel ops from Success"}},
		{"both name one channel, the team wants less", all, &v1beta1.Reporting{SlackChannel: "ops", MinNotificationType: "Error"}, []string{"webhook from Warning", "Slack channel ops from Warning"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := c.settings.Audience(c.reporting)
			if (a == nil) != (c.want == nil) {
				t.Fatalf("audience = %+v, want %q", a, c.want)
			}
			var got []string
			for _, r := range a.Of("unknown") {
				got = append(got, r.String()+" from "+string(r.Least))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("who hears (-want +got):\n%s", diff)
			}
		})
	}
}

// rule M5: the order is chaos-controller's, and by default Info is not sent.
func TestWhatMatters(t *testing.T) {
	for least, want := range map[v1beta1.NotificationType]string{
		"": "Success Completion Warning Error", "Info": "Info Success Completion Warning Error", "Success": "Success Completion Warning Error",
		"Completion": "Completion Warning Error", "Warning": "Warning Error", "Error": "Error",
	} {
		a := &Audience{}
		a.add(Recipient{Way: Webhook, Least: least})
		sent := slices.DeleteFunc(strings.Split(v1beta1.NotificationTypes(), ", "), func(kind string) bool { return len(a.Of(v1beta1.NotificationType(kind))) == 0 })
		if got := strings.Join(sent, " "); got != want {
			t.Errorf("from %q on is told %q, want %q", least, got, want)
		}
	}
}

// kept compares with a file of testdata; JSON is written in lines.
func kept(t *testing.T, name, got string) {
	t.Helper()
	var parsed map[string]any
	if json.Unmarshal([]byte(got), &parsed) == nil {
		pretty, err := json.MarshalIndent(json.RawMessage(got), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = string(pretty)
	}
	golden.Compare(t, "testdata/"+name, got+"\n")
}
