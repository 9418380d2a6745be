package pki

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/squall-chaos/squall/hack/cluster"
)

// Ensure makes the certificates of a cluster unless they are there and fit its
// addresses. Certificates for MaxNodes nodes are made at once, so a cluster can
// grow. The directory appears as a whole or not at all.
//
//	pki/cp      ca.crt, apiserver, kubelet-client, sa.key, *.kubeconfig
//	pki/nodeN   ca.crt, kubelet, *.kubeconfig
//	pki/admin   ca.crt, admin.crt, admin.key; the kubeconfig is made from it
func Ensure(c *cluster.Cluster) error {
	fits := fmt.Appendf(nil, "%s %s\n", c.Links, c.Services)
	if made, err := os.ReadFile(c.Path("pki", "made-for")); err == nil && bytes.Equal(made, fits) {
		return nil
	}
	half := c.Path("pki.new")
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("make certificates: %w", err)
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	w := &writer{cluster: c, ca: ca, dir: half}
	w.controlPlane()
	w.nodes()
	w.admin()
	w.file("made-for", fits)
	if w.err != nil {
		return fmt.Errorf("make certificates: %w", w.err)
	}
	if err := os.RemoveAll(c.Path("pki")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make certificates: %w", err)
	}
	return os.Rename(half, c.Path("pki"))
}

// writer fills a directory and keeps the first error.
type writer struct {
	cluster *cluster.Cluster
	ca      *authority
	dir     string
	err     error
}

func (w *writer) controlPlane() {
	c := w.cluster
	w.file("cp/ca.crt", w.ca.cert)
	w.pair("cp/apiserver", subject{
		name: "kube-apiserver",
		dnsNames: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc.cluster.local"},
		addresses: []net.IP{net.IPv4(127, 0, 0, 1), ip(c.ServiceAddr()), ip(c.ControlPlaneAddr())},
	})
	w.pair("cp/kubelet-client", subject{name: "kube-apiserver-kubelet-client", group: "system:masters"})
	w.kubeconfig("cp/controller-manager.kubeconfig", subject{name: "system:kube-controller-manager"})
	w.kubeconfig("cp/scheduler.kubeconfig", subject{name: "system:kube-scheduler"})
	key, err := newKey()
	if err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	pem, err := encodeKey(key)
	w.err = errors.Join(w.err, err)
	w.file("cp/sa.key", pem)
}

func (w *writer) nodes() {
	for n := 1; n <= cluster.MaxNodes; n++ {
		dir, name := cluster.NodeRole(n), cluster.NodeName(n)
		w.file(dir+"/ca.crt", w.ca.cert)
		w.pair(dir+"/kubelet", subject{name: name, dnsNames: []string{name}, addresses: []net.IP{ip(w.cluster.NodeAddr(n))}})
		w.kubeconfig(dir+"/kubelet.kubeconfig", subject{name: "system:node:" + name, group: "system:nodes"})
		w.kubeconfig(dir+"/kube-proxy.kubeconfig", subject{name: "system:kube-proxy"})
	}
}

func (w *writer) admin() {
	w.file("admin/ca.crt", w.ca.cert)
	w.pair("admin/admin", subject{name: "squall-admin", group: "system:masters"})
}

func (w *writer) pair(path string, s subject) {
	p, err := w.ca.issue(s)
	w.err = errors.Join(w.err, err)
	w.file(path+".crt", p.cert)
	w.file(path+".key", p.key)
}

func (w *writer) kubeconfig(path string, s subject) {
	p, err := w.ca.issue(s)
	w.err = errors.Join(w.err, err)
	access := cluster.Access{Server: w.cluster.URL(), Authority: w.ca.cert, Cert: p.cert, Key: p.key}
	w.file(path, access.Kubeconfig())
}

func (w *writer) file(path string, content []byte) {
	if w.err == nil {
		w.err = cluster.WriteFile(filepath.Join(w.dir, path), content, 0o600)
	}
}

// Admin reads the credentials of the cluster's administrator.
func Admin(c *cluster.Cluster) (cluster.Access, error) {
	a := cluster.Access{Server: c.HostURL()}
	var errs [3]error
	a.Authority, errs[0] = os.ReadFile(c.Path("pki", "admin", "ca.crt"))
	a.Cert, errs[1] = os.ReadFile(c.Path("pki", "admin", "admin.crt"))
	a.Key, errs[2] = os.ReadFile(c.Path("pki", "admin", "admin.key"))
	return a, errors.Join(errs[:]...)
}

func ip(a netip.Addr) net.IP { return net.IP(a.AsSlice()) }
