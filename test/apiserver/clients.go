package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// admissionConfiguration has the API server show its client certificate to every webhook.
const admissionConfiguration = `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: MutatingAdmissionWebhook
  configuration: &webhooks
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: %[1]s
- name: ValidatingAdmissionWebhook
  configuration: *webhooks
`

const webhookKubeconfig = `apiVersion: v1
kind: Config
users:
- name: "*"
  user: {client-certificate: %[1]s/client.crt, client-key: %[1]s/client.key}
`

// ClientCA is the file with the authority that signed the certificate which the package's
// API server shows to webhooks.
func ClientCA(t testing.TB) string {
	t.Helper()
	Start(t)
	shared.Lock()
	defer shared.Unlock()
	return filepath.Join(shared.audit, "client-ca.crt")
}

// writeClient makes a client certificate, its authority and the configurations that name
// it, and returns the file for --admission-control-config-file.
func writeClient(directory string) (string, error) {
	authority, authorityKey, err := signed(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil, nil)
	if err != nil {
		return "", err
	}
	client, key, err := signed(&x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, authority, authorityKey)
	if err != nil {
		return "", err
	}
	encoded, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return "", fmt.Errorf("encode a key: %w", err)
	}
	configuration, kubeconfig := filepath.Join(directory, "admission.yaml"), filepath.Join(directory, "webhooks.kubeconfig")
	for file, content := range map[string][]byte{
		filepath.Join(directory, "client-ca.crt"): pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Raw}),
		filepath.Join(directory, "client.crt"):    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: client.Raw}),
		filepath.Join(directory, "client.key"):    encoded,
		kubeconfig:                                fmt.Appendf(nil, webhookKubeconfig, directory),
		configuration:                             fmt.Appendf(nil, admissionConfiguration, kubeconfig),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return "", fmt.Errorf("write the API server's client certificate: %w", err)
		}
	}
	return configuration, nil
}

// signed makes a certificate; without an authority it signs itself.
func signed(of, by *x509.Certificate, byKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	of.SerialNumber, of.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "squall-test"}
	of.NotBefore, of.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if by == nil {
		by, byKey = of, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, byKey)
	if err != nil {
		return nil, nil, fmt.Errorf("sign a certificate: %w", err)
	}
	made, err := x509.ParseCertificate(raw)
	return made, key, err
}
