// Package pki makes the certificates of the development cluster. One authority
// signs them all, they are good for ten years and live in the cluster's
// directory. Every machine gets a directory with what it needs and no more.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

const validity = 10 * 365 * 24 * time.Hour

// pair is a certificate and its private key, both PEM.
type pair struct{ cert, key []byte }

type authority struct {
	pair
	certificate *x509.Certificate
	private     *ecdsa.PrivateKey
}

// subject is the holder of a certificate. Without names and addresses it is a
// client.
type subject struct {
	name, group string
	dnsNames    []string
	addresses   []net.IP
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	template := newTemplate(subject{name: "squall-devcluster"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = nil
	p, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(p.cert)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the authority's certificate back: %w", err)
	}
	return &authority{pair: p, certificate: certificate, private: key}, nil
}

// issue makes a key and a certificate for it.
func (a *authority) issue(s subject) (pair, error) {
	key, err := newKey()
	if err != nil {
		return pair{}, err
	}
	return sign(newTemplate(s), a.certificate, key, a.private)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func newTemplate(s subject) *x509.Certificate {
	usage := x509.ExtKeyUsageClientAuth
	if len(s.dnsNames)+len(s.addresses) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.name},
		NotBefore:   time.Now().Add(-time.Hour), // clocks that are set back a little
		NotAfter:    time.Now().Add(validity),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
		DNSNames:    s.dnsNames,
		IPAddresses: s.addresses,
	}
	if s.group != "" {
		template.Subject.Organization = []string{s.group}
	}
	return template
}

func sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return pair{}, fmt.Errorf("choose a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{cert: encode("CERTIFICATE", der), key: keyPEM}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return encode("EC PRIVATE KEY", der), nil
}

func encode(kind string, der []byte) []byte {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // a Buffer takes everything
	return out.Bytes()
}
