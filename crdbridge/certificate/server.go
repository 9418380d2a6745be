package certificate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Bounds of a webhook's server. Every pod of the cluster may reach it.
const (
	// largestReview bounds a request's body. An API server takes objects of up to 3 MiB
	// and adds less than 1 MiB. It sends two objects for an UPDATE only, which is about
	// custom resources; etcd keeps these as JSON of at most 1.5 MiB.
	largestReview = 4 << 20
	// reviewsAtOnce bounds the bodies in memory. Further requests wait.
	reviewsAtOnce = 16
	// connections at once. An API server needs one or two.
	connections = 64
	// readTimeout is for a whole request. An API server waits 3 s for its answer.
	readTimeout = 5 * time.Second
	idleTimeout = 90 * time.Second
	stopTimeout = time.Second
)

// Clients reads the authorities that sign certificates of API servers. Without a file it
// returns nil: then any client may call.
func Clients(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read setting webhook-client-ca: %w", err)
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("setting webhook-client-ca: %s has no certificate in PEM", file)
	}
	return authorities, nil
}

// Server serves at the port with the certificate, or with tls.crt and tls.key of the
// directory. With clients it refuses connections without a certificate that one of these
// authorities signed.
func Server(port int, directory string, certificate *Certificate, clients *x509.CertPool) webhook.Server {
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if directory == "" {
			return certificate.now()
		}
		// Read each time: a renewed file needs no signal to this process.
		pair, err := tls.LoadX509KeyPair(filepath.Join(directory, corev1.TLSCertKey), filepath.Join(directory, corev1.TLSPrivateKeyKey))
		return &pair, err
	}
	if clients != nil {
		config.ClientCAs, config.ClientAuth = clients, tls.RequireAndVerifyClientCert
	}
	mux := http.NewServeMux()
	counted := webhook.NewServer(webhook.Options{Port: port, WebhookMux: mux})
	return &server{Server: counted, port: port, tls: config, mux: mux, slots: make(chan struct{}, reviewsAtOnce)}
}

// server wraps the server of controller-runtime, which registers and counts requests. It
// bounds connections, and the time and size of bodies.
type server struct {
	webhook.Server
	port    int
	tls     *tls.Config
	mux     *http.ServeMux
	slots   chan struct{}
	started atomic.Bool
}

// Register serves a webhook at the path.
func (s *server) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		case <-r.Context().Done():
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, largestReview)
		hook.ServeHTTP(w, r)
	}))
}

// StartedChecker is healthy while the port is open.
func (s *server) StartedChecker() healthz.Checker {
	return func(*http.Request) error {
		if !s.started.Load() {
			return errors.New("the webhook server does not listen")
		}
		return nil
	}
}

// Start serves until ctx is done.
func (s *server) Start(ctx context.Context) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(s.port)))
	if err != nil {
		return fmt.Errorf("serve webhooks: %w", err)
	}
	serving := &http.Server{
		BaseContext: func(net.Listener) context.Context { return ctx }, Handler: s.mux,
		ReadTimeout: readTimeout, WriteTimeout: 2 * readTimeout, IdleTimeout: idleTimeout,
	}
	s.started.Store(true)
	defer s.started.Store(false)
	ended := make(chan error, 1)
	go func() {
		ended <- serving.Serve(tls.NewListener(&bounded{listener, make(chan struct{}, connections)}, s.tls))
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve webhooks: %w", err)
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err = serving.Shutdown(stopping)
	<-ended
	if err != nil {
		return errors.Join(err, serving.Close())
	}
	return nil
}

// bounded closes connections beyond its slots as soon as they are made.
type bounded struct {
	net.Listener
	slots chan struct{}
}

// Accept returns the next connection for which there is a slot.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.slots <- struct{}{}:
			return &slotted{Conn: conn, free: sync.OnceFunc(func() { <-b.slots })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// slotted frees its slot when it is closed.
type slotted struct {
	net.Conn
	free func()
}

// Close closes the connection. Safe to call twice.
func (s *slotted) Close() error {
	s.free()
	return s.Conn.Close()
}
