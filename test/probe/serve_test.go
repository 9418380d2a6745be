//go:build linux

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCommandsNeedTheToken(t *testing.T) {
	server := httptest.NewServer(commands("secret"))
	defer server.Close()
	for _, test := range []struct {
		name, token, body string
		want              int
	}{
		{"without a token", "", `["snapshot"]`, http.StatusForbidden},
		{"with another token", "secre", `["snapshot"]`, http.StatusForbidden},
		{"no list", "secret", `"snapshot"`, http.StatusBadRequest},
		// The program here is the test's, which knows no such flag.
		{"a command that fails", "secret", `["-no-such-flag"]`, http.StatusUnprocessableEntity},
		{"a command that succeeds", "secret", `["-test.list=^$"]`, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set(tokenHeader, test.token)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("status %d, want %d", response.StatusCode, test.want)
			}
		})
	}
}
