//go:build linux

package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// tokenVariable holds the secret that a request must carry in tokenHeader.
	tokenVariable = "PROBE_TOKEN"
	tokenHeader   = "Probe-Token"
)

// serve runs this program's other commands for requests that carry the token. It costs a
// hundredth of a command by the pods/exec API, for which the container runtime starts
// three programs.
func serve(ctx context.Context, args []string) (any, error) {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	address := flags.String("listen", ":19199", "`address` of the HTTP server")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	token := os.Getenv(tokenVariable)
	if token == "" {
		return nil, fmt.Errorf("set the environment variable %s to the secret that requests must carry", tokenVariable)
	}
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", *address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{Handler: commands(token), ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return nil, err
	}
	return "ended", nil
}

// commands answers a POST of a JSON list of arguments with what this program prints for
// them: 200 and JSON, or 422 and the error.
func commands(token string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get(tokenHeader)), []byte(token)) != 1 {
			http.Error(w, "the token is missing or wrong", http.StatusForbidden)
			return
		}
		var args []string
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&args); err != nil {
			http.Error(w, "want a JSON list of arguments: "+err.Error(), http.StatusBadRequest)
			return
		}
		// A process of its own, because some commands enter the namespaces of others.
		command := exec.CommandContext(r.Context(), "/proc/self/exe", args...)
		command.Env = []string{}
		var problem strings.Builder
		command.Stderr = &problem
		out, err := command.Output()
		if err != nil {
			http.Error(w, fmt.Sprintf("%v: %s", err, problem.String()), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	})
}
