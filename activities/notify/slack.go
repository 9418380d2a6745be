package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// passing are errors of Slack that pass with time; a person has to fix all others.
var passing = []string{"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}

// slackError matches the form of Slack's errors. An error text has nothing else of an
// answer.
var slackError = regexp.MustCompile(`^[a-z_]{1,64}$`)

// mostText bounds a message or purpose for Slack, in characters.
const mostText = 1000

// postSlack notifies a Slack channel, or a user by the e-mail address.
func (s Settings) postSlack(ctx context.Context, to Recipient, n Notification) error {
	if s.SlackTokenFile == "" {
		return fmt.Errorf("setting %s is empty: this worker has no token for Slack any more", SettingSlackTokenFile)
	}
	token, err := secret(SettingSlackTokenFile, s.SlackTokenFile)
	if err != nil {
		return err
	}
	channel := to.To
	if to.Way == SlackUser {
		if channel, err = s.slackUser(ctx, token, to.To); err != nil {
			return err
		}
	}
	body, err := json.Marshal(map[string]any{"channel": channel, "text": s.text(n), "unfurl_links": false, "unfurl_media": false})
	if err != nil {
		return refused("write notification %s: %v", n.ID, err)
	}
	_, err = s.callSlack(ctx, token, "chat.postMessage", "application/json; charset=utf-8", body)
	return err
}

// slackUser returns the ID of a user. The address is in the body, because logs have the
// addresses of requests.
func (s Settings) slackUser(ctx context.Context, token, email string) (string, error) {
	answer, err := s.callSlack(ctx, token, "users.lookupByEmail", "application/x-www-form-urlencoded", []byte(url.Values{"email": {email}}.Encode()))
	if err != nil {
		return "", err
	}
	return answer.User.ID, nil
}

type slackAnswer struct {
	OK    bool   `json:"ok"`
	Error string `json:"error"`
	User  struct {
		ID string `json:"id"`
	} `json:"user"`
}

func (s Settings) callSlack(ctx context.Context, token, method, contentType string, body []byte) (answer slackAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.slack(method), bytes.NewReader(body))
	if err != nil {
		return answer, refused("setting %s is no URL", SettingSlackURL)
	}
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("Authorization", "Bearer "+token)
	recipient := "Slack (" + method + ")"
	text, err := send(request, recipient)
	if err != nil {
		return answer, err
	}
	if json.Unmarshal(text, &answer) != nil {
		return answer, again(0, "%s answered something that is not JSON", recipient)
	}
	switch {
	case answer.OK:
		return answer, nil
	case !slackError.MatchString(answer.Error):
		return answer, refused("%s refused without a reason", recipient)
	case slices.Contains(passing, answer.Error):
		return answer, again(0, "%s answered %s", recipient, answer.Error)
	}
	return answer, refused("%s answered %s", recipient, answer.Error)
}

// text returns a message for people. Text that users wrote can neither mention a user
// nor link anywhere.
func (s Settings) text(n Notification) string {
	where := ""
	if cluster := cmp.Or(s.Cluster, string(n.Object.Cluster)); cluster != "" {
		where = " in cluster " + plain(cluster)
	}
	lines := []string{
		fmt.Sprintf("*%s: %s* %s `%s/%s`%s", n.Type, n.Reason, n.ObjectWord(), n.Object.Namespace, n.Object.Name, where),
		plain(n.Message),
	}
	if len(n.Kinds) > 0 {
		lines = append(lines, "Kinds: "+strings.Join(n.Kinds, ", "))
	}
	if n.Purpose != "" {
		lines = append(lines, "Purpose: "+plain(n.Purpose))
	}
	if n.Requester != "" {
		lines = append(lines, "Requested by: "+plain(n.Requester))
	}
	return strings.Join(lines, "\n")
}

// plain escapes what Slack would take for a mention or a link, and shortens long text.
func plain(text string) string {
	if runes := []rune(text); len(runes) > mostText {
		text = string(runes[:mostText]) + "..."
	}
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
