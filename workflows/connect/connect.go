// Package connect reaches a Temporal server the same way from every program of Squall:
// without encryption, with TLS, with a client certificate or with an API key. It reads no
// settings itself and never logs a secret.
package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
)

// Settings are the address of Temporal and the credentials.
type Settings struct {
	// Address is host:port of the frontend; empty means 127.0.0.1:7233.
	Address string
	// Namespace of Temporal, not of Kubernetes; empty means default.
	Namespace string
	// TLS encrypts the connection. It is implied by every setting below.
	TLS bool
	// TLSCA is a file of PEM certificates that may have signed the server's;
	// empty means the system's.
	TLSCA string
	// TLSCert and TLSKey are the files of the client certificate, both or
	// none. They are read again at every handshake, so a rotated certificate
	// needs no restart.
	TLSCert string
	TLSKey  string
	// ServerName is the one that the server's certificate must have; empty means
	// the host of Address.
	ServerName string
	// APIKey is sent with every call.
	APIKey string
	// APIKeyFile holds the API key, unless there is no such file at the start. It is read
	// again at every call, so a rotated key needs no restart. APIKey has precedence.
	APIKeyFile string
	// Lazy dials at the first call and not before, so that a program can start
	// while Temporal is away.
	Lazy bool
	// Extend, unless nil, changes the client's options.
	Extend func(*client.Options)
}

// Dial returns a client for the server of s; the caller closes it. A lazy
// client fails for settings that can never work and for nothing else; otherwise
// the server must answer before ctx ends. metrics may be nil.
func Dial(ctx context.Context, s Settings, logger *zap.Logger, metrics client.MetricsHandler) (client.Client, error) {
	options, err := s.options(logger)
	if err != nil {
		return nil, err
	}
	options.MetricsHandler = metrics
	if s.Extend != nil {
		s.Extend(&options)
	}
	if s.Lazy {
		return client.NewLazyClient(options)
	}
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("reach temporal at %s, namespace %s: %w", options.HostPort, options.Namespace, Advise(err))
	}
	return c, nil
}

// options are the client options of s. Files are read here, so a wrong path is
// found at start.
func (s Settings) options(logger *zap.Logger) (client.Options, error) {
	options := client.Options{
		HostPort:  s.Address,
		Namespace: s.Namespace,
		Logger:    sdkLogger(logger),
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	keyed, err := s.keyed()
	if err != nil {
		return client.Options{}, err
	}
	if keyed {
		options.Credentials = client.NewAPIKeyDynamicCredentials(s.apiKey)
	}
	encryption, err := s.encryption(keyed)
	if err != nil {
		return client.Options{}, err
	}
	options.ConnectionOptions.TLS = encryption
	// The SDK would compress each call, of a kilobyte or two: more work, for both sides,
	// than the bytes cost in a network nearby.
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	return options, nil
}

// sdkLogger lets Temporal's SDK write to the same core as the rest of a program. The SDK
// logs each start of a worker at Info. Its lines are for developers, so they carry a name
// by which they are easy to leave out.
func sdkLogger(logger *zap.Logger) log.Logger {
	return log.NewStructuredLogger(slog.New(zapslog.NewHandler(logger.Core(), zapslog.WithName("temporal"))))
}

// keyed is true when calls carry an API key.
func (s Settings) keyed() (bool, error) {
	if s.APIKey != "" || s.APIKeyFile == "" {
		return s.APIKey != "", nil
	}
	_, err := s.apiKey(context.Background())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// apiKey is the API key as it is now.
func (s Settings) apiKey(context.Context) (string, error) {
	if s.APIKey != "" {
		return s.APIKey, nil
	}
	content, err := os.ReadFile(s.APIKeyFile)
	if err != nil {
		return "", fmt.Errorf("read the temporal API key: %w", err)
	}
	key := strings.TrimSpace(string(content))
	if key == "" {
		return "", fmt.Errorf("read the temporal API key: %s is empty", s.APIKeyFile)
	}
	return key, nil
}

// encryption is nil for a plain connection. keyed is true for calls with an API key,
// whose connection is never plain.
func (s Settings) encryption(keyed bool) (*tls.Config, error) {
	if !s.TLS && s.TLSCA == "" && s.TLSCert == "" && s.TLSKey == "" && !keyed {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.ServerName}
	if s.TLSCA != "" {
		pool, err := readCertificates(s.TLSCA)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if s.TLSCert == "" && s.TLSKey == "" {
		return config, nil
	}
	if s.TLSCert == "" || s.TLSKey == "" {
		return nil, errors.New("temporal client certificate: the certificate and the key must both be set")
	}
	if _, err := s.certificate(nil); err != nil {
		return nil, err
	}
	config.GetClientCertificate = s.certificate
	return config, nil
}

func (s Settings) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("read temporal client certificate %s: %w", s.TLSCert, err)
	}
	return &pair, nil
}

func readCertificates(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read temporal CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read temporal CA: no PEM certificate in %s", path)
	}
	return pool, nil
}
