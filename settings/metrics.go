package settings

import (
	"bytes"
	"crypto/subtle"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Metrics is where a program serves its page of metrics, and who may read it.
type Metrics struct {
	// MetricsAddress is the address of the page; "0" serves none.
	MetricsAddress string `mapstructure:"metrics-address"`
	// MetricsTokenFile holds the bearer token that a reader must send; empty: none.
	MetricsTokenFile string `mapstructure:"metrics-token-file"`
}

// MetricsFlags adds the flags of these settings.
func MetricsFlags(flags *pflag.FlagSet) {
	flags.String("metrics-address", ":8080", "address of /metrics; 0: none")
	flags.String("metrics-token-file", "", "file with the bearer token that readers of /metrics need; empty: anyone may read")
}

// Page serves the page only to readers with the token. It reads the file for each request,
// because the token may change; without the file it refuses every reader.
func (m Metrics) Page(page http.Handler) http.Handler {
	if m.MetricsTokenFile == "" {
		return page
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, err := os.ReadFile(m.MetricsTokenFile)
		if token = bytes.TrimSpace(token); err != nil || len(token) == 0 {
			http.Error(w, "there is no token by which readers are known: see metrics-token-file", http.StatusServiceUnavailable)
			return
		}
		shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(shown), token) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "show the bearer token of metrics", http.StatusUnauthorized)
			return
		}
		page.ServeHTTP(w, r)
	})
}
