package settings

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// SettingTracesHeaders has no flag, as it holds secrets.
const SettingTracesHeaders = "traces-headers"

// Traces is where a program sends its traces. Without an endpoint it sends none.
type Traces struct {
	// Endpoint is the URL of an OTLP receiver that takes HTTP. A URL that begins with
	// http:// is allowed with PlainText only, because headers are sent there too.
	Endpoint  string `mapstructure:"traces-endpoint"`
	PlainText bool   `mapstructure:"traces-plain-text"`
	// Headers are name=value, separated by commas or lines; HeadersFile is a file of the
	// same.
	Headers     string `mapstructure:"traces-headers"`
	HeadersFile string `mapstructure:"traces-headers-file"`
	// Sampling is the share of traces that is sent, from 0 to 1.
	Sampling float64 `mapstructure:"traces-sampling"`
}

// TracesFlags adds the flags of Traces, with their defaults.
func TracesFlags(flags *pflag.FlagSet) {
	flags.String("traces-endpoint", "", "URL of the OTLP receiver (HTTP) for traces, such as https://collector.monitoring:4318; empty: no traces")
	flags.Bool("traces-plain-text", false, "allow a URL that begins with http://")
	flags.String("traces-headers-file", "", "file with headers for the receiver, one name=value per line")
	flags.Float64("traces-sampling", 1, "share of traces to send, from 0 to 1")
}

// Check refuses settings that can never work, or that would send secrets in plain text
// without PlainText.
func (t Traces) Check() error {
	if t.Sampling < 0 || t.Sampling > 1 {
		return fmt.Errorf("setting traces-sampling %g: want a share from 0 to 1, such as 0.1", t.Sampling)
	}
	if t.Endpoint == "" {
		return nil
	}
	u, err := url.Parse(t.Endpoint)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https":
		// The value may hold a password.
		return errors.New("setting traces-endpoint: want a URL such as https://collector.monitoring:4318; what proves who we are belongs into traces-headers-file")
	case u.Scheme == "http" && !t.PlainText:
		return fmt.Errorf("setting traces-endpoint %q sends traces and headers in plain text: use https, or set traces-plain-text", t.Endpoint)
	case t.Headers != "" && t.HeadersFile != "":
		return errors.New("settings traces-headers and traces-headers-file are both set: want one of them")
	}
	return nil
}

// ReadHeaders are the headers of either setting.
func (t Traces) ReadHeaders() (map[string]string, error) {
	from, text := SettingTracesHeaders, t.Headers
	if t.HeadersFile != "" {
		content, err := os.ReadFile(t.HeadersFile)
		if err != nil {
			return nil, fmt.Errorf("read traces-headers-file: %w", err)
		}
		from, text = "traces-headers-file", string(content)
	}
	headers := map[string]string{}
	for i, pair := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		name, value, both := strings.Cut(strings.TrimSpace(pair), "=")
		if name == "" && !both {
			continue // an empty line
		}
		if name = strings.TrimSpace(name); !both || name == "" {
			// the value may be a secret
			return nil, fmt.Errorf("setting %s: entry %d is not name=value", from, i+1)
		}
		headers[name] = strings.TrimSpace(value)
	}
	return headers, nil
}
