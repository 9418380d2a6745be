// Package notify notifies people of the progress of a disruption or a
// DisruptionScenario, by a webhook and by Slack. Settings and spec.reporting alone
// decide who receives what. Sending is one attempt, which may be repeated.
package notify

import (
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Notification describes one change of a disruption or a DisruptionScenario. It holds
// no secret, because Temporal stores it.
type Notification struct {
	// ID is the same in every attempt and for every recipient.
	ID string `json:"id"`
	// Object is the Disruption, or the object of kind Kind.
	Object v1beta1.DisruptionRef    `json:"disruption"`
	Kind   string                   `json:"kind,omitempty"`
	Type   v1beta1.NotificationType `json:"type"`
	// Reason is one word for programs, Message a sentence for people.
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`

	Phase  v1beta1.Phase `json:"phase,omitempty"`
	Ending string        `json:"ending,omitempty"`
	Kinds  []string      `json:"kinds,omitempty"`
	// Targets counts the targets that are disrupted or are to be, Stuck the chaos pods
	// that could not be cleaned.
	Targets int             `json:"targets,omitempty"`
	Stuck   int             `json:"stuck,omitempty"`
	Verdict v1beta1.Verdict `json:"verdict,omitempty"`
	Purpose string          `json:"purpose,omitempty"`
	// Requester is the user who created the disruption, if known.
	Requester string `json:"requester,omitempty"`
}

// ObjectWord is the word for the object: disruption or scenario.
func (n Notification) ObjectWord() string {
	if n.Kind == v1beta1.KindDisruptionScenario {
		return scenario
	}
	return "disruption"
}

const scenario = "scenario"

// Ways to notify a recipient.
const (
	Webhook      = "webhook"
	SlackChannel = "slack-channel"
	SlackUser    = "slack-user"
)

// Recipient receives notifications. The webhook's address is not in it; only the worker
// knows it.
type Recipient struct {
	Way string `json:"way"`
	// To is a Slack channel, or the e-mail address of a Slack user.
	To string `json:"to,omitempty"`
	// Least is the least important type that the recipient receives.
	Least v1beta1.NotificationType `json:"least"`
}

// String names the recipient for people.
func (r Recipient) String() string {
	switch r.Way {
	case SlackChannel:
		return "Slack channel " + r.To
	case SlackUser:
		return "Slack user " + r.To
	}
	return r.Way
}

// Audience lists the recipients for a disruption or a DisruptionScenario.
type Audience struct {
	Recipients []Recipient `json:"recipients"`
	Purpose    string      `json:"purpose,omitempty"`
}

// Of returns the recipients of a type of notifications. A nil Audience has none.
func (a *Audience) Of(kind v1beta1.NotificationType) (recipients []Recipient) {
	if a == nil {
		return nil
	}
	for _, r := range a.Recipients {
		if kind.Matters(r.Least) {
			recipients = append(recipients, r)
		}
	}
	return recipients
}

// Audience returns the recipients for an object with that spec.reporting; nil if there
// are none.
func (s Settings) Audience(reporting *v1beta1.Reporting) *Audience {
	var a Audience
	if s.WebhookURL != "" {
		a.add(Recipient{Way: Webhook, Least: s.LeastType})
	}
	if s.SlackTokenFile != "" {
		a.add(Recipient{Way: SlackChannel, To: s.SlackChannel, Least: s.LeastType})
		if reporting != nil {
			least := v1beta1.NotificationType(reporting.MinNotificationType)
			a.add(Recipient{Way: SlackChannel, To: reporting.SlackChannel, Least: least})
			a.add(Recipient{Way: SlackUser, To: reporting.SlackUserEmail, Least: least})
		}
	}
	if len(a.Recipients) == 0 {
		return nil
	}
	if reporting != nil {
		a.Purpose = reporting.Purpose
	}
	return &a
}

// add adds a recipient. A recipient that is listed already keeps the lower least type.
func (a *Audience) add(r Recipient) {
	if r.Way != Webhook && r.To == "" {
		return
	}
	if r.Least == "" {
		r.Least = v1beta1.NotificationDefault
	}
	same := func(have Recipient) bool { return have.Way == r.Way && have.To == r.To }
	i := slices.IndexFunc(a.Recipients, same)
	if i < 0 {
		a.Recipients = append(a.Recipients, r)
		return
	}
	if r.Least.Matters(a.Recipients[i].Least) {
		return // it receives these types already
	}
	a.Recipients[i].Least = r.Least
}
