package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"github.com/squall-chaos/squall/hack/cluster"
)

func testCluster(t *testing.T) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Ensure(c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificatesAreGoodForTheirUse(t *testing.T) {
	c := testCluster(t)
	tests := []struct {
		file, host, name, group string
		usage                   x509.ExtKeyUsage
	}{
		{"cp/apiserver.crt", "127.0.0.1", "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{"cp/apiserver.crt", "10.96.0.1", "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{"cp/apiserver.crt", "10.231.0.10", "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{"cp/apiserver.crt", "kubernetes.default.svc", "kube-apiserver", "", x509.ExtKeyUsageServerAuth},
		{"node9/kubelet.crt", "10.231.0.19", "squall-node9", "", x509.ExtKeyUsageServerAuth},
		{"cp/kubelet-client.crt", "", "kube-apiserver-kubelet-client", "system:masters", x509.ExtKeyUsageClientAuth},
		{"admin/admin.crt", "", "squall-admin", "system:masters", x509.ExtKeyUsageClientAuth},
	}
	authority, err := os.ReadFile(c.Path("pki/cp/ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	for _, test := range tests {
		t.Run(test.file+" for "+test.host, func(t *testing.T) {
			data, err := os.ReadFile(c.Path("pki", test.file))
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode(data)
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			_, err = certificate.Verify(x509.VerifyOptions{Roots: roots, DNSName: test.host, KeyUsages: []x509.ExtKeyUsage{test.usage}})
			if err != nil {
				t.Error(err)
			}
			groups := certificate.Subject.Organization
			if certificate.Subject.CommonName != test.name || len(groups) > 0 != (test.group != "") || len(groups) > 0 && groups[0] != test.group {
				t.Errorf("subject = %s, want %s of group %q", certificate.Subject, test.name, test.group)
			}
		})
	}
}

func TestEnsureKeepsWhatFits(t *testing.T) {
	c := testCluster(t)
	first, err := Admin(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(first.Cert, first.Key); err != nil {
		t.Error(err)
	}
	if err := Ensure(c); err != nil {
		t.Fatal(err)
	}
	second, err := Admin(c)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Cert, second.Cert) {
		t.Error("a second Ensure made other certificates")
	}
	c.Links = c.Pods // other addresses
	if err := Ensure(c); err != nil {
		t.Fatal(err)
	}
	if third, err := Admin(c); err != nil || bytes.Equal(first.Cert, third.Cert) {
		t.Errorf("Ensure kept the certificates of other addresses (%v)", err)
	}
}
