package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

func TestSettingsThatCanNeverWorkAreRefusedAtStart(t *testing.T) {
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.pem")
	write(t, junk, []byte("not a certificate"))
	tests := []struct {
		name string
		s    Settings
		want string
	}{
		{"a CA file that is not there", Settings{TLSCA: filepath.Join(dir, "none")}, "read temporal CA"},
		{"a CA file without a certificate", Settings{TLSCA: junk}, "no PEM certificate"},
		{"a client certificate without its key", Settings{TLSCert: junk}, "both be set"},
		{"a key without its client certificate", Settings{TLSKey: junk}, "both be set"},
		{"a client certificate that cannot be read", Settings{TLSCert: junk, TLSKey: junk}, "read temporal client certificate"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			test.s.Lazy = true
			if _, err := Dial(t.Context(), test.s, zap.NewNop(), nil); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Dial(%+v) = %v, want an error with %q", test.s, err, test.want)
			}
		})
	}
}

func TestDialWhileTemporalIsAway(t *testing.T) {
	away := listen(t)
	address := away.Addr().String()
	away.Close()

	t.Run("a lazy client is made", func(t *testing.T) {
		c, err := Dial(t.Context(), Settings{Address: address, Lazy: true}, zap.NewNop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	})
	t.Run("any other says who did not answer", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := Dial(ctx, Settings{Address: address}, zap.NewNop(), nil); err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "nothing listens there") {
			t.Errorf("Dial(%s) = %v, want an error that names it and says what to do", address, err)
		}
	})
}

func TestDialProvesWhoWeAre(t *testing.T) {
	pki := newPKI(t)
	server := serve(t, pki)
	with := func(change func(*Settings)) Settings {
		s := Settings{Address: server.address, TLSCA: pki.ca, TLSCert: pki.cert, TLSKey: pki.key}
		change(&s)
		return s
	}
	tests := []struct {
		name string
		s    Settings
		want string // of the error, with its hint; empty: none
	}{
		{"a client certificate", with(func(*Settings) {}), ""},
		{"no client certificate", with(func(s *Settings) { s.TLSCert, s.TLSKey = "", "" }), "set SQUALL_TEMPORAL_TLS_CERT"},
		{"an unknown CA", with(func(s *Settings) { s.TLSCA = ""; s.TLS = true }), "in SQUALL_TEMPORAL_TLS_CA"},
		{"a plain connection", Settings{Address: server.address}, "set SQUALL_TEMPORAL_TLS=true"},
		{"TLS where there is none", Settings{Address: plain(t), TLS: true}, "set SQUALL_TEMPORAL_TLS=false"},
		{"a name that nobody knows", Settings{Address: "temporal.invalid:7233"}, "set SQUALL_TEMPORAL_ADDRESS"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := Dial(t.Context(), test.s, zap.NewNop(), nil)
			// The server's reason may arrive after the end of the connection: then the next
			// attempt has it.
			for tries := 0; err != nil && !strings.Contains(err.Error(), test.want) && tries < 20; tries++ {
				_, err = Dial(t.Context(), test.s, zap.NewNop(), nil)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Dial = %v, want %q", err, test.want)
			}
			if err == nil {
				c.Close()
			}
		})
	}

	t.Run("an API key is sent, and only over TLS", func(t *testing.T) {
		c, err := Dial(t.Context(), with(func(s *Settings) { s.APIKey = "secret" }), zap.NewNop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if got := server.authorization.Load(); got != "Bearer secret" {
			t.Errorf("authorization = %q, want %q", got, "Bearer secret")
		}
		options, err := Settings{APIKey: "secret"}.options(zap.NewNop())
		if err != nil || options.ConnectionOptions.TLS == nil {
			t.Errorf("options with an API key: TLS %v, error %v; want TLS", options.ConnectionOptions.TLS, err)
		}
	})
}

// N28: a rotated key counts from the next call on; without the file there is no key.
func TestAPIKeyOfAFileIsReadAgain(t *testing.T) {
	pki := newPKI(t)
	server := serve(t, pki)
	file := filepath.Join(t.TempDir(), "api-key")
	s := Settings{Address: server.address, TLSCA: pki.ca, TLSCert: pki.cert, TLSKey: pki.key, APIKeyFile: file}
	sent := func(s Settings) string {
		c, err := Dial(t.Context(), s, zap.NewNop(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return fmt.Sprint(server.authorization.Load())
	}
	if got := sent(s); got != "" && got != "<nil>" {
		t.Errorf("authorization without the file = %q, want none", got)
	}
	write(t, file, []byte("first\n"))
	c, err := Dial(t.Context(), s, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for _, key := range []string{"first", "second"} {
		write(t, file, []byte(key+"\n"))
		// The server notes the key, even if it refuses the call.
		_, _ = c.WorkflowService().GetClusterInfo(t.Context(), &workflowservice.GetClusterInfoRequest{})
		if got := server.authorization.Load(); got != "Bearer "+key {
			t.Errorf("authorization = %q, want %q", got, "Bearer "+key)
		}
	}
	write(t, file, nil)
	if _, err := Dial(t.Context(), s, zap.NewNop(), nil); err == nil || !strings.Contains(err.Error(), file+" is empty") {
		t.Errorf("Dial with an empty file = %v, want a refusal that names it", err)
	}
	options, err := Settings{APIKeyFile: filepath.Join(t.TempDir(), "none")}.options(zap.NewNop())
	if err != nil || options.ConnectionOptions.TLS != nil {
		t.Errorf("options without the file: TLS %v, error %v; want plain", options.ConnectionOptions.TLS, err)
	}
}

func TestCallsAreNotCompressed(t *testing.T) {
	pki := newPKI(t)
	server := serve(t, pki)
	c, err := Dial(t.Context(), Settings{Address: server.address, TLSCA: pki.ca, TLSCert: pki.cert, TLSKey: pki.key}, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := server.headers.compression.Load(); got != "" {
		t.Errorf("compression = %q, want none", got)
	}
}

func TestTheLoggerWritesToTheProgramsCore(t *testing.T) {
	core, lines := observer.New(zapcore.InfoLevel)
	logger := sdkLogger(zap.New(core))
	logger.Debug("too quiet")
	logger.Info("worker started", "TaskQueue", "squall-disruptions")
	entries := lines.All()
	if len(entries) != 1 || entries[0].LoggerName != "temporal" || entries[0].ContextMap()["TaskQueue"] != "squall-disruptions" {
		t.Errorf("lines = %+v, want one of logger temporal with its keys", entries)
	}
}

// server is a gRPC server with mutual TLS that knows no method: enough for the SDK, which
// takes it for an old Temporal.
type server struct {
	address       string
	authorization *atomic.Value
	headers       *headers
}

// headers keep how the last call was compressed.
type headers struct {
	compression atomic.Value
}

func (h *headers) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (h *headers) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (h *headers) HandleConn(context.Context, stats.ConnStats)                       {}
func (h *headers) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InHeader); ok {
		h.compression.Store(in.Compression)
	}
}

func serve(t *testing.T, pki pki) server {
	t.Helper()
	got := new(atomic.Value)
	pair, err := tls.LoadX509KeyPair(pki.cert, pki.key)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := readCertificates(pki.ca)
	if err != nil {
		t.Fatal(err)
	}
	headers := &headers{}
	g := grpc.NewServer(
		grpc.StatsHandler(headers),
		grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
		})),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			if md, ok := metadata.FromIncomingContext(stream.Context()); ok && len(md["authorization"]) == 1 {
				got.Store(md["authorization"][0])
			}
			return status.Error(codes.Unimplemented, "unknown method")
		}))
	l := listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return server{l.Addr().String(), got, headers}
}

// plain is the address of a gRPC server without TLS.
func plain(t *testing.T) string {
	t.Helper()
	g, l := grpc.NewServer(), listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(l) }()
	t.Cleanup(func() { g.Stop(); <-done })
	return l.Addr().String()
}

type pki struct{ ca, cert, key string }

func newPKI(t *testing.T) pki {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "temporal"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := pki{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	write(t, files.cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, files.key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
	return files
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
