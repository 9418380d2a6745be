package v1beta1

import (
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Reporting sends notifications about one disruption to people.
type Reporting struct {
	// SlackChannel is the name of a channel, or its ID (C...), at most 80
	// characters.
	//
	// +kubebuilder:validation:MaxLength=80
	// +kubebuilder:validation:Pattern=`^([-a-z0-9_]+|C[A-Z0-9]+)?$`
	SlackChannel string `json:"slackChannel,omitempty"`
	// SlackUserEmail is the e-mail address of a Slack user, at most 320 characters.
	//
	// +kubebuilder:validation:MaxLength=320
	// +kubebuilder:validation:Pattern=`^([^@\s]+@[^@\s]+)?$`
	SlackUserEmail string `json:"slackUserEmail,omitempty"`
	// Purpose is the reason for the disruption, in at least 10 characters.
	//
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self.size() >= 10",message="want at least 10 characters with the purpose of the disruption",messageExpression="'\"' + self + '\": want at least 10 characters with the purpose of the disruption'"
	// +kubebuilder:validation:MaxLength=4096
	Purpose string `json:"purpose,omitempty"`
	// MinNotificationType is the least important notification that is sent, in
	// the order Info, Success, Completion, Warning, Error. Empty means Success.
	//
	// +kubebuilder:validation:Enum=Info;Success;Completion;Warning;Error;""
	MinNotificationType string `json:"minNotificationType,omitempty"`
}

var (
	slackChannel = regexp.MustCompile(`^([-a-z0-9_]+|C[A-Z0-9]+)?$`)
	emailAddress = regexp.MustCompile(`^([^@\s]+@[^@\s]+)?$`)
)

func (r *Reporting) validate(path *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	errs := length(path.Child("slackChannel"), r.SlackChannel, 0, 80)
	errs = append(errs, pattern(path.Child("slackChannel"), r.SlackChannel, slackChannel,
		"want a channel's name (lower case, digits, - and _) or its ID")...)
	errs = append(errs, length(path.Child("slackUserEmail"), r.SlackUserEmail, 0, 320)...)
	errs = append(errs, pattern(path.Child("slackUserEmail"), r.SlackUserEmail, emailAddress, "want an e-mail address")...)
	if r.Purpose != "" {
		errs = append(errs, length(path.Child("purpose"), r.Purpose, 10, 4096)...)
	}
	known := []string{""}
	for _, kind := range notificationTypes {
		known = append(known, string(kind))
	}
	return append(errs, oneOf(path.Child("minNotificationType"), r.MinNotificationType, known...)...)
}

// NotificationType is how important a notification is.
type NotificationType string

// The types of notifications, and the default of the least type that is sent.
const (
	NotificationInfo       NotificationType = "Info"
	NotificationSuccess    NotificationType = "Success"
	NotificationCompletion NotificationType = "Completion"
	NotificationWarning    NotificationType = "Warning"
	NotificationError      NotificationType = "Error"
	NotificationDefault                     = NotificationSuccess
)

// notificationTypes are all, the least important first.
var notificationTypes = []NotificationType{NotificationInfo, NotificationSuccess, NotificationCompletion, NotificationWarning, NotificationError}

// NotificationTypes are all types, the least important first, for people.
func NotificationTypes() string {
	var names []string
	for _, kind := range notificationTypes {
		names = append(names, string(kind))
	}
	return strings.Join(names, ", ")
}

// Known is true for the types that there are.
func (t NotificationType) Known() bool { return slices.Contains(notificationTypes, t) }

// Matters is true when t is as important as least, or more. An unknown type matters.
func (t NotificationType) Matters(least NotificationType) bool {
	if least == "" {
		least = NotificationDefault
	}
	return !t.Known() || slices.Index(notificationTypes, t) >= slices.Index(notificationTypes, least)
}
