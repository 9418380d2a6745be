package notify

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Names of the worker's settings.
const (
	SettingWebhookURL        = "notify-webhook-url"
	SettingWebhookSecretFile = "notify-webhook-secret-file"
	SettingSlackTokenFile    = "notify-slack-token-file"
	SettingSlackChannel      = "notify-slack-channel"
	SettingSlackURL          = "notify-slack-url"
	SettingLeastType         = "notify-least-type"
	SettingCluster           = "cluster-name"
)

// SlackURL is the default of setting notify-slack-url.
const SlackURL = "https://slack.com/api"

// Settings are the worker's settings for notifications. The zero value sends none.
type Settings struct {
	WebhookURL        string `mapstructure:"notify-webhook-url"`
	WebhookSecretFile string `mapstructure:"notify-webhook-secret-file"`
	SlackTokenFile    string `mapstructure:"notify-slack-token-file"`
	// SlackChannel receives the notifications of all disruptions.
	SlackChannel string `mapstructure:"notify-slack-channel"`
	SlackURL     string `mapstructure:"notify-slack-url"`
	// LeastType is the least important type for the webhook and SlackChannel.
	LeastType v1beta1.NotificationType `mapstructure:"notify-least-type"`
	// Cluster is the name that people give the cluster.
	Cluster string `mapstructure:"cluster-name"`
}

// Check returns what is wrong. It never names an address, which may hold a password.
func (s Settings) Check() error {
	switch {
	case s.WebhookURL != "" && !isURL(s.WebhookURL):
		return fmt.Errorf("setting %s: want a URL such as https://hooks.example.com/squall", SettingWebhookURL)
	case s.WebhookURL != "" && s.WebhookSecretFile == "":
		return fmt.Errorf("setting %s is empty: name a file with the secret by which notifications are signed", SettingWebhookSecretFile)
	case s.WebhookURL == "" && s.WebhookSecretFile != "":
		return fmt.Errorf("setting %s %q: there is no %s that the secret is for", SettingWebhookSecretFile, s.WebhookSecretFile, SettingWebhookURL)
	case s.SlackChannel != "" && s.SlackTokenFile == "":
		return fmt.Errorf("setting %s %q: Slack needs a token, in a file that %s names", SettingSlackChannel, s.SlackChannel, SettingSlackTokenFile)
	case s.SlackURL != "" && !isURL(s.SlackURL):
		return fmt.Errorf("setting %s: want a URL such as %s", SettingSlackURL, SlackURL)
	case s.LeastType != "" && !s.LeastType.Known():
		return fmt.Errorf("setting %s %q: want one of %s", SettingLeastType, s.LeastType, v1beta1.NotificationTypes())
	}
	return nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

func (s Settings) slack(method string) string {
	return strings.TrimSuffix(cmp.Or(s.SlackURL, SlackURL), "/") + "/" + method
}

// secret reads a file each time, because the mounted file may be replaced.
func secret(setting, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("setting %s: %w", setting, err)
	}
	if found := strings.TrimSpace(string(text)); found != "" {
		return found, nil
	}
	return "", fmt.Errorf("setting %s: the file %s is empty", setting, file)
}
