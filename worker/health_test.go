package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/settings"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// The server ends the connection of a client that does not finish its request. Other
// clients get answers meanwhile.
func TestSlowConnectionsAreCutOff(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	server := newServer(address, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() { server.Close(); <-ended }()
	slow, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	if _, err := slow.Write([]byte("GET /healthz HTTP/1.1\r\nHost:")); err != nil {
		t.Fatal(err)
	}
	response, err := http.Get("http://" + address + "/healthz")
	if err != nil {
		t.Fatalf("another request is not answered: %v", err)
	}
	response.Body.Close()
	if err := slow.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, slow); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is open after a minute, want it closed")
	}
}

func TestMetricsNeedTheToken(t *testing.T) {
	file, address := filepath.Join(t.TempDir(), "token"), temporalserver.FreeAddress(t)
	if err := os.WriteFile(file, []byte("s3cret"), 0o600); err != nil {
		t.Fatal(err)
	}
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	served := serveHealth(Config{HealthAddress: "0", Metrics: settings.Metrics{MetricsAddress: address, MetricsTokenFile: file}}, page, zap.NewNop())
	defer served.close()
	for token, want := range map[string]int{"s3cret": http.StatusOK, "guessed": http.StatusUnauthorized} {
		eventually(t, "the page of metrics answers", func() bool {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				return false
			}
			answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("with %q the answer is %d, want %d", token, answer.StatusCode, want)
			}
			return true
		})
	}
}
