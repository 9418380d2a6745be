package settings

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// With a token file, only readers with the token get the page (finding 29).
func TestMetricsAreReadWithTheToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("squall_stuck_total 0")) })
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		file   string
		before func()
		shown  string
		want   int
	}{
		{"no token is asked for", "", nil, "", http.StatusOK},
		{"the file is not there", file, nil, "Bearer ", http.StatusServiceUnavailable},
		{"the file is empty", file, func() { put("\n") }, "Bearer ", http.StatusServiceUnavailable},
		{"the token", file, func() { put("s3cret\n") }, "Bearer s3cret", http.StatusOK},
		{"none", file, nil, "", http.StatusUnauthorized},
		{"another one", file, nil, "Bearer s3cre", http.StatusUnauthorized},
		{"the token by itself", file, nil, "Basic s3cret", http.StatusUnauthorized},
		{"the former one", file, func() { put("newer") }, "Bearer s3cret", http.StatusUnauthorized},
		{"the newer one", file, nil, "Bearer newer", http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.before != nil {
				test.before()
			}
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			if test.shown != "" {
				request.Header.Set("Authorization", test.shown)
			}
			answer := httptest.NewRecorder()
			Metrics{MetricsTokenFile: test.file}.Page(page).ServeHTTP(answer, request)
			if served := answer.Body.String() == "squall_stuck_total 0"; answer.Code != test.want || served != (test.want == http.StatusOK) {
				t.Errorf("answer %d %q, want %d", answer.Code, answer.Body, test.want)
			}
		})
	}
}
