package certificate

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestCertificateIsRenewedInTime(t *testing.T) {
	const host = "squall-on-init.squall-system.svc"
	now := time.Now()
	first, renewed, err := inOrder(nil, host, now)
	if err != nil || !renewed || !good(first, host, now) {
		t.Fatalf("inOrder of nothing: renewed %t, %v; want a good certificate", renewed, err)
	}
	if kept, renewed, err := inOrder(first, host, now.Add(lifetime-renewBefore-2*time.Hour)); err != nil || renewed || !bytes.Equal(kept[corev1.TLSCertKey], first[corev1.TLSCertKey]) {
		t.Errorf("a certificate with more than %s left: renewed %t, %v", renewBefore, renewed, err)
	}
	second, renewed, err := inOrder(first, host, now.Add(lifetime-renewBefore+2*time.Hour))
	if err != nil || !renewed || bytes.Equal(second[corev1.TLSCertKey], first[corev1.TLSCertKey]) {
		t.Fatalf("a certificate with less than %s left: renewed %t, %v", renewBefore, renewed, err)
	}
	old := map[string][]byte{corev1.TLSCertKey: first[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: first[corev1.TLSPrivateKeyKey], authorityKey: second[authorityKey]}
	if !good(old, host, now) || !good(second, host, now) {
		t.Error("who trusts the new authorities does not trust both certificates")
	}
	third, _, err := inOrder(second, host, now.Add(lifetime-renewBefore+2*time.Hour))
	if err != nil || bytes.Count(third[authorityKey], []byte("BEGIN")) > 2 {
		t.Errorf("%d authorities, %v; want the last two", bytes.Count(third[authorityKey], []byte("BEGIN")), err)
	}
	for name, data := range map[string]map[string][]byte{
		"another host":  first,
		"a broken key":  {corev1.TLSCertKey: first[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: []byte("x"), authorityKey: first[authorityKey]},
		"no authority":  {corev1.TLSCertKey: first[corev1.TLSCertKey], corev1.TLSPrivateKeyKey: first[corev1.TLSPrivateKeyKey]},
		"others' texts": {"note": []byte("kept")},
	} {
		made, renewed, err := inOrder(data, "elsewhere.svc", now)
		if err != nil || !renewed || !good(made, "elsewhere.svc", now) || !bytes.Equal(made["note"], data["note"]) {
			t.Errorf("%s: renewed %t, %v; want a good certificate", name, renewed, err)
		}
	}
}
