package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"
)

// Whoever begins a request and does not go on is cut off, and keeps nobody else
// from asking meanwhile.
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
