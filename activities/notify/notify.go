// Package notify tells people what becomes of a disruption, or of a scenario of them: a
// webhook of the operator's, and Slack. Who is told what is decided from settings and
// spec.reporting alone; sending is one attempt, which may be made again.
package notify

import (
	"slices"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Notification says once what became of a disruption, or of a scenario of them. It has
// no secret: Temporal keeps it.
type Notification struct {
	// ID is the same in every attempt and for every recipient.
	ID string `json:"id"`
	// Object is what it is about: a Disruption, or what Kind says.
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
	// Targets counts those that are disrupted or are to be, Stuck the chaos pods that
	// could not be cleaned.
	Targets int             `json:"targets,omitempty"`
	Stuck   int             `json:"stuck,omitempty"`
	Verdict v1beta1.Verdict `json:"verdict,omitempty"`
	Purpose string          `json:"purpose,omitempty"`
	// Requester is the user who asked for the disruption, if that is known.
	Requester string `json:"requester,omitempty"`
}

// What is the word for what it is about: disruption, or scenario.
func (n Notification) What() string {
	if n.Kind == v1beta1.KindDisruptionScenario {
		return scenario
	}
	return "disruption"
}

const scenario = "scenario"

// Ways to tell somebody.
const (
	Webhook      = "webhook"
	SlackChannel = "slack-channel"
	SlackUser    = "slack-user"
)

// Recipient is somebody who is told. Where the webhook is only the worker knows.
type Recipient struct {
	Way string `json:"way"`
	// To is a channel of Slack, or the e-mail address of one of its users.
	To string `json:"to,omitempty"`
	// Least is the least important type that is told.
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

// Audience is who hears of a disruption, or of a scenario.
type Audience struct {
	Recipients []Recipient `json:"recipients"`
	Purpose    string      `json:"purpose,omitempty"`
}

// Of are those who hear of notifications of a type. Nobody is nil's audience.
func (a *Audience) Of(kind v1beta1.NotificationType) (told []Recipient) {
	if a == nil {
		return nil
	}
	for _, r := range a.Recipients {
		if kind.Matters(r.Least) {
			told = append(told, r)
		}
	}
	return told
}

// Audience is who hears of what has that spec.reporting; nil if nobody does.
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

// add adds a recipient, or lets one that is there hear of more.
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
		return // it hears of these already
	}
	a.Recipients[i].Least = r.Least
}
