// Package certificate keeps the certificates of the bridge's admission webhooks, and makes
// the API server trust them.
package certificate

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

const (
	// lifetime of a certificate, and how long before its end the bridge renews it.
	lifetime    = 365 * 24 * time.Hour
	renewBefore = 30 * 24 * time.Hour
	// lookEvery is how often the Secret is read, retryEvery the same after a failure.
	lookEvery  = time.Minute
	retryEvery = 5 * time.Second
	// authorityKey is the Secret's key of the authorities that clients trust.
	authorityKey = "ca.crt"
)

// Certificate is the current certificate of a webhook. The zero value has none yet.
type Certificate struct {
	current atomic.Pointer[tls.Certificate]
}

func (c *Certificate) now() (*tls.Certificate, error) {
	if pair := c.current.Load(); pair != nil {
		return pair, nil
	}
	return nil, errors.New("the webhook has no certificate yet")
}

// Place names a webhook's own objects.
type Place struct {
	// Host is the name by which API servers call the webhook.
	Host string
	// Namespace of the Secret.
	Namespace string
	// Secret and Configuration, by name.
	Secret, Configuration string
	// Validating is true for a webhook that refuses, and false for one that changes.
	Validating bool
	// Clients are the authorities that sign certificates of API servers. With nil the
	// webhook answers any client, so it must not act.
	Clients *x509.CertPool
}

// InCluster is the place of a webhook whose Service, Secret and configuration have one
// name, as the components of deploy make it.
func InCluster(name, systemNamespace string) Place {
	return Place{Host: name + "." + systemNamespace + ".svc", Namespace: systemNamespace, Secret: name, Configuration: name}
}

// Serve makes every replica of m answer at the port and path, and keep the certificate of
// that server.
func Serve(m manager.Manager, name string, port int, path string, answers admission.Handler, place Place) error {
	own := &Certificate{}
	server := Server(port, "", own, place.Clients)
	server.Register(path, &admission.Webhook{Handler: answers})
	if err := m.Add(server); err != nil {
		return err
	}
	return Keep(m, name, place, own)
}

// Keep makes every replica of m keep the certificate.
func Keep(m manager.Manager, name string, place Place, certificate *Certificate) error {
	return m.Add(&keeper{live: m.GetAPIReader(), client: m.GetClient(), log: m.GetLogger().WithName(name), place: place, certificate: certificate})
}

// keeper keeps the certificate in a Secret, renews it in time, and makes the API server
// trust it. All replicas do so: each reads what another has written.
type keeper struct {
	live        client.Reader
	client      client.Client
	log         logr.Logger
	place       Place
	certificate *Certificate
}

// NeedLeaderElection is false: every replica serves the webhook.
func (*keeper) NeedLeaderElection() bool { return false }

// Start keeps the certificate until ctx is done, and retries after an error. Meanwhile the
// webhook is not served, and the bridge does everything else.
func (k *keeper) Start(ctx context.Context) error {
	for {
		pause := lookEvery
		if err := k.keep(ctx); err != nil && ctx.Err() == nil {
			k.log.Error(err, "the webhook's certificate is not in order")
			pause = retryEvery
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// keep checks the certificate once. Several replicas may do it at once: both writes carry
// the version that was read.
func (k *keeper) keep(ctx context.Context) error {
	secret := &corev1.Secret{}
	if err := k.live.Get(ctx, types.NamespacedName{Namespace: k.place.Namespace, Name: k.place.Secret}, secret); err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	data, renewed, err := inOrder(secret.Data, k.place.Host, time.Now())
	if err != nil {
		return fmt.Errorf("make a certificate for %s: %w", k.place.Host, err)
	}
	if renewed {
		secret.Data = data
		if err := k.client.Update(ctx, secret); err != nil {
			return fmt.Errorf("store the certificate: %w", err)
		}
		k.log.Info("made a certificate", "host", k.place.Host, "for", lifetime)
	}
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("load the certificate: %w", err)
	}
	k.certificate.current.Store(&pair)
	return k.trust(ctx, data[authorityKey])
}

// trust writes the trusted authorities into the webhook's configuration.
func (k *keeper) trust(ctx context.Context, authorities []byte) error {
	configuration, clients := k.place.configuration()
	if err := k.live.Get(ctx, types.NamespacedName{Name: k.place.Configuration}, configuration); err != nil {
		return fmt.Errorf("read the webhook's configuration: %w", err)
	}
	changed := false
	for _, theirs := range clients() {
		if !bytes.Equal(theirs.CABundle, authorities) {
			theirs.CABundle, changed = authorities, true
		}
	}
	if !changed {
		return nil
	}
	if err := k.client.Update(ctx, configuration); err != nil {
		return fmt.Errorf("write the webhook's configuration: %w", err)
	}
	return nil
}

// configuration returns an empty configuration of its kind, and a function that returns the
// client settings of its webhooks once it is read.
func (p Place) configuration() (client.Object, func() []*admissionregistrationv1.WebhookClientConfig) {
	if p.Validating {
		c := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		return c, func() (clients []*admissionregistrationv1.WebhookClientConfig) {
			for i := range c.Webhooks {
				clients = append(clients, &c.Webhooks[i].ClientConfig)
			}
			return clients
		}
	}
	c := &admissionregistrationv1.MutatingWebhookConfiguration{}
	return c, func() (clients []*admissionregistrationv1.WebhookClientConfig) {
		for i := range c.Webhooks {
			clients = append(clients, &c.Webhooks[i].ClientConfig)
		}
		return clients
	}
}

// inOrder returns data if it holds a certificate for host that is valid for longer than
// renewBefore, else data with a new one. The authority of the old certificate stays trusted
// beside the new one: other replicas serve with it for up to a minute.
func inOrder(data map[string][]byte, host string, now time.Time) (map[string][]byte, bool, error) {
	if good(data, host, now.Add(renewBefore)) {
		return data, false, nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: host, MaxAge: lifetime})
	if err != nil {
		return nil, false, err
	}
	_, authority := pem.Decode(chain) // the certificate comes first, then its authority
	next := maps.Clone(data)
	if next == nil {
		next = map[string][]byte{}
	}
	next[corev1.TLSCertKey], next[corev1.TLSPrivateKeyKey] = chain, key
	next[authorityKey] = authority
	if old, _ := pem.Decode(data[authorityKey]); old != nil && good(data, host, now) {
		next[authorityKey] = append(bytes.Clone(authority), pem.EncodeToMemory(old)...)
	}
	return next, true, nil
}

// good is true for a certificate of host that clients which trust its authority accept at
// that time.
func good(data map[string][]byte, host string, at time.Time) bool {
	pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return false
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(data[authorityKey])
	_, err = pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: authorities, CurrentTime: at})
	return err == nil
}
