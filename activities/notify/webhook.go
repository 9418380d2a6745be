package notify

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// event is a notification in the structured mode of CloudEvents 1.0.
type event struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            data   `json:"data"`
}

// data is the webhook's view of a notification.
type data struct {
	Cluster string `json:"cluster,omitempty"`
	// One of them is set.
	Disruption *object                  `json:"disruption,omitempty"`
	Scenario   *object                  `json:"scenario,omitempty"`
	Severity   v1beta1.NotificationType `json:"notificationType"`
	Reason     string                   `json:"reason"`
	Message    string                   `json:"message"`
	Phase      v1beta1.Phase            `json:"phase,omitempty"`
	Ending     string                   `json:"ending,omitempty"`
	Kinds      []string                 `json:"kinds,omitempty"`
	Targets    int                      `json:"targets"`
	Stuck      int                      `json:"stuck,omitempty"`
	Verdict    v1beta1.Verdict          `json:"verdict,omitempty"`
	Purpose    string                   `json:"purpose,omitempty"`
	Requester  string                   `json:"requester,omitempty"`
}

type object struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// body is the same for each attempt.
func (s Settings) body(n Notification) ([]byte, error) {
	cluster := cmp.Or(s.Cluster, string(n.Object.Cluster))
	about := data{
		Cluster: cluster, Severity: n.Type, Reason: n.Reason, Message: n.Message, Phase: n.Phase, Ending: n.Ending, Kinds: n.Kinds,
		Targets: n.Targets, Stuck: n.Stuck, Verdict: n.Verdict, Purpose: n.Purpose, Requester: n.Requester,
	}
	if named := (&object{n.Object.Namespace, n.Object.Name, n.Object.UID}); n.ObjectWord() == scenario {
		about.Scenario = named
	} else {
		about.Disruption = named
	}
	return json.Marshal(event{
		SpecVersion: "1.0", ID: n.ID, Source: "/clusters/" + url.PathEscape(cmp.Or(cluster, "unknown")),
		Type:    "dev.squall.chaos." + n.ObjectWord() + "." + strings.ToLower(n.Reason),
		Subject: n.Object.Namespace + "/" + n.Object.Name,
		Time:    n.Time.UTC().Format(time.RFC3339Nano), DataContentType: "application/json",
		Data: about,
	})
}

// sign signs as Standard Webhooks defines it, which libraries of many languages check:
// ID, time and body. A secret that begins with whsec_ is base64.
func sign(secret, id string, at time.Time, body []byte) (string, error) {
	key := []byte(secret)
	if encoded, found := strings.CutPrefix(secret, "whsec_"); found {
		var err error
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return "", fmt.Errorf("setting %s: what follows whsec_ is not base64", SettingWebhookSecretFile)
		}
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%d.", id, at.Unix()) // a hash accepts everything
	_, _ = mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)), nil
}

// postEvent notifies the webhook.
func (s Settings) postEvent(ctx context.Context, n Notification) error {
	if s.WebhookURL == "" {
		return fmt.Errorf("setting %s is empty: this worker knows no webhook any more", SettingWebhookURL)
	}
	key, err := secret(SettingWebhookSecretFile, s.WebhookSecretFile)
	if err != nil {
		return err
	}
	body, err := s.body(n)
	if err != nil {
		return refused("write notification %s: %v", n.ID, err)
	}
	now := time.Now()
	signature, err := sign(key, n.ID, now, body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.WebhookURL, bytes.NewReader(body))
	if err != nil {
		return refused("setting %s is no URL", SettingWebhookURL)
	}
	request.Header.Set("Content-Type", "application/cloudevents+json; charset=utf-8")
	request.Header.Set("Webhook-Id", n.ID)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", signature)
	_, err = send(request, "the webhook")
	return err
}
