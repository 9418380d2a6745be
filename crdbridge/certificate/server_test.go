package certificate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/temporalserver"
)

// serve has a webhook that reads the body. It returns its address, and its current number
// of requests.
func serve(t *testing.T, clients *x509.CertPool) (string, *atomic.Int32) {
	t.Helper()
	reading := &atomic.Int32{}
	data, _, err := inOrder(nil, "localhost", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	own := &Certificate{}
	own.current.Store(&pair)
	port := temporalserver.FreePort(t)
	server := Server(port, "", own, clients)
	server.Register("/ask", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reading.Add(1)
		defer reading.Add(-1)
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	address := "localhost:" + strconv.Itoa(port)
	patience.Within(t, 10*time.Second, "the webhook is served", func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return address, reading
}

// ask sends a body, and returns the status of the answer.
func ask(address string, body io.Reader, certificates ...tls.Certificate) (int, error) {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, Certificates: certificates}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}}
	answer, err := client.Post("https://"+address+"/ask", "application/json", body)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, answer.Body.Close()
}

// issued returns a client's certificate, which is its own authority, and that in PEM.
func issued(t *testing.T) (client tls.Certificate, authority []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

// With a CA of clients the server refuses clients without a certificate of it.
func TestOnlyClientsOfTheAuthorityAreAnswered(t *testing.T) {
	known, authority := issued(t)
	stranger, _ := issued(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	clients, err := Clients(file)
	if err != nil {
		t.Fatal(err)
	}
	address, _ := serve(t, clients)
	if status, err := ask(address, strings.NewReader("{}"), known); err != nil || status != http.StatusOK {
		t.Errorf("with its certificate: %d, %v; want an answer", status, err)
	}
	if status, err := ask(address, strings.NewReader("{}")); err == nil {
		t.Errorf("without a certificate: %d, want none", status)
	}
	if status, err := ask(address, strings.NewReader("{}"), stranger); err == nil {
		t.Errorf("with another one's certificate: %d, want none", status)
	}
}

func TestClientsOfAFile(t *testing.T) {
	if clients, err := Clients(""); clients != nil || err != nil {
		t.Errorf("Clients of no file = %v, %v", clients, err)
	}
	empty := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".gone"} {
		if clients, err := Clients(file); err == nil || clients != nil {
			t.Errorf("Clients(%s) = %v, %v, want an error", file, clients, err)
		}
	}
}

// A client that sends too much, or too slowly, or makes too many connections, takes no more
// memory than the bounds allow. It keeps no other client from its answer.
func TestWhatClientsTakeIsBounded(t *testing.T) {
	address, reading := serve(t, nil)
	if status, err := ask(address, bytes.NewReader(make([]byte, largestReview))); err != nil || status != http.StatusOK {
		t.Errorf("a body of %d bytes: %d, %v; want it read", largestReview, status, err)
	}
	if status, err := ask(address, bytes.NewReader(make([]byte, largestReview+1))); err == nil && status != http.StatusBadRequest {
		t.Errorf("a body of %d bytes: %d, want it refused", largestReview+1, status)
	}
	for range reviewsAtOnce { // they hold a slot each, until their time is over
		go func() { _, _ = ask(address, never{t.Context()}) }()
	}
	patience.Within(t, readTimeout, "the slow ones have all slots", func() bool { return reading.Load() == reviewsAtOnce })
	patience.Within(t, 6*readTimeout, "an answer after the slow ones", func() error {
		_, err := ask(address, strings.NewReader("{}"))
		return err
	})
	closed := &atomic.Int32{}
	for range connections + 10 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // the server writes nothing
			closed.Add(1)
		}()
	}
	patience.Within(t, readTimeout/2, "10 connections are closed, before any is for its time", func() error {
		if n := closed.Load(); n < 10 {
			return fmt.Errorf("%d of %d are closed", n, connections+10)
		}
		return nil
	})
}

// never is a body without data.
type never struct{ ctx context.Context }

func (n never) Read([]byte) (int, error) {
	<-n.ctx.Done()
	return 0, n.ctx.Err()
}
