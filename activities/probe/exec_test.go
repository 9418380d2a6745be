package probe

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules P1, P2 and P23. The test's own server plays the API server and the kubelet;
// client-go calls it as it calls a cluster.
func TestExec(t *testing.T) {
	seen := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { playKubelet(w, r, seen) }))
	defer server.Close()
	on := execAt(t, server.URL)
	target := onePod("10.0.0.1")
	target.Pod.Spec.Containers = append(target.Pod.Spec.Containers, corev1.Container{Name: "side", Env: []corev1.EnvVar{{Name: "CODE", Value: "exit-7"}}})
	target.Container = "side"
	for _, c := range []struct {
		name    string
		exec    *Exec
		target  *Target
		command []string
		want    outcome
		text    string
		asked   string
	}{
		{"exit code 0", on, target, []string{"exit-0"}, succeeds, "exit code 0", "side exit-0"},
		{"another exit code: one attempt", on, target, []string{"exit-7"}, fails, "exit code 7", "side exit-7"},
		{"variables of the container, and no shell", on, target, []string{"$(CODE)", "a b; c", "$(NONE)"}, fails, "exit code 7", "side exit-7|a b; c|$(NONE)"},
		{"much output, none of it kept", on, target, []string{"flood"}, fails, "exit code 1", "side flood"},
		{"no end in time: one attempt", on, target, []string{"hang"}, fails, "the command did not end in time", "side hang"},
		{"what cannot be run is an error: three attempts", on, target, []string{"broken"}, errs, "", "side broken"},
		{"without the right it is an error", on, target, []string{"forbidden"}, errs, "", "side forbidden"},
		{"switched off", nil, target, []string{"exit-0"}, errs, "exec probes are switched off: the operator has to allow them, or use another handler", ""},
		{"without a target", on, nil, []string{"exit-0"}, errs, "a command runs in a target: use scope PerTarget", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := anyProber()
			p.Exec = c.exec
			probe := v1beta1.Probe{TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{Exec: &v1beta1.ExecProbe{Command: c.command}}}
			if answer := wantOutcome(t, p, probe, c.target, c.want); c.text != "" && answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
			asked := ""
			for len(seen) > 0 {
				asked = <-seen
			}
			// A machine that is too busy may not come as far in a moment.
			if asked != c.asked && (asked != "" || timeLimit(c.text) > 1) {
				t.Errorf("run was %q, want %q", asked, c.asked)
			}
		})
	}
}

// rule P23
func TestExpand(t *testing.T) {
	env := []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "EMPTY"}, {Name: "NESTED", Value: "$(A)"},
		{Name: "SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{Key: "k"}}}}
	for _, c := range []struct{ word, want string }{
		{"plain", "plain"}, {"", ""},
		{"$(A)", "1"}, {"x$(A)y$(A)", "x1y1"},
		{"$(EMPTY)", ""}, {"$(SECRET)", ""},
		{"$(NESTED)", "$(A)"},
		{"$(NONE)", "$(NONE)"}, {"$$(A)", "$(A)"}, {"$$$(A)", "$1"},
		{"$A", "$A"}, {"${A}", "${A}"}, {"$(A", "$(A"}, {"$", "$"}, {"$(rm -rf /)", "$(rm -rf /)"}, {"`id`", "`id`"},
	} {
		if got := expand([]string{c.word}, env); got[0] != c.want {
			t.Errorf("expand(%q) = %q, want %q", c.word, got[0], c.want)
		}
	}
}

func execAt(t *testing.T, url string) *Exec {
	t.Helper()
	config := &rest.Config{Host: url}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &Exec{Client: client, Config: config}
}

// playKubelet answers as a kubelet does, by the command's first word.
func playKubelet(w http.ResponseWriter, r *http.Request, seen chan<- string) {
	query := r.URL.Query()
	seen <- query.Get("container") + " " + strings.Join(query["command"], "|")
	if diff := cmp.Diff("/api/v1/namespaces/shop/pods/checkout-1/exec", r.URL.Path); diff != "" {
		http.Error(w, diff, http.StatusNotFound)
		return
	}
	command := query.Get("command")
	if command == "forbidden" {
		http.Error(w, "no", http.StatusForbidden)
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{remotecommand.StreamProtocolV5Name}}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	end := metav1.Status{Status: metav1.StatusSuccess}
	exit := func(code string) {
		end = metav1.Status{Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: code}}}}
	}
	switch command {
	case "exit-7":
		exit("7")
	case "flood":
		for range 1000 {
			_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{remotecommand.StreamStdOut}, strings.Repeat("secret", 1000)...))
		}
		exit("1")
	case "hang":
		_, _, _ = conn.ReadMessage()
		return
	case "broken":
		end = metav1.Status{Status: metav1.StatusFailure, Message: "no such program"}
	}
	text, _ := json.Marshal(end)
	_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{remotecommand.StreamErr}, text...))
	_ = conn.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	_, _, _ = conn.ReadMessage() // until the client closes it too
}
