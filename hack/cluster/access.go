package cluster

import (
	"encoding/base64"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Access is what a kubeconfig is made of. The three are PEM.
type Access struct {
	Server               string // URL of the API server
	Authority, Cert, Key []byte
}

// Kubeconfig renders a file with everything inline, so that it works from
// wherever it is copied to.
func (a Access) Kubeconfig() []byte {
	inline := base64.StdEncoding.EncodeToString
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: squall
clusters:
- name: squall
  cluster:
    server: %s
    certificate-authority-data: %s
contexts:
- name: squall
  context: {cluster: squall, user: squall}
users:
- name: squall
  user:
    client-certificate-data: %s
    client-key-data: %s
`, a.Server, inline(a.Authority), inline(a.Cert), inline(a.Key))
}

// URL is the API server as its own machine and the nodes reach it.
func (c *Cluster) URL() string {
	return "https://" + hostPort(c.ControlPlaneAddr().String(), APIPort)
}

// HostURL is the API server as the host reaches it.
func (c *Cluster) HostURL() string { return "https://" + hostPort("127.0.0.1", c.APIPort) }

// Env renders the file that shells and make read: one NAME=value a line.
func (c *Cluster) Env() []byte {
	host := c.HostAddr().String()
	lines := []string{
		"KUBECONFIG=" + c.Path("kubeconfig"),
		"TEMPORAL_ADDRESS=" + hostPort("127.0.0.1", c.TemporalPort),
		"TEMPORAL_UI=http://" + hostPort("127.0.0.1", c.UIPort),
		"SQUALL_TEMPORAL_ADDRESS_IN_CLUSTER=" + hostPort(host, c.TemporalPort),
		"SQUALL_HOST_ADDRESS=" + host,
		"SQUALL_REGISTRY=" + c.Registry(),
		"SQUALL_NODES=" + strconv.Itoa(c.Nodes),
		"SQUALL_CGROUP_PREFIX=" + c.Name(),
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// Registry is the address on the host from which nodes pull images without TLS. A
// registry may run there.
func (c *Cluster) Registry() string { return hostPort(c.HostAddr().String(), registryPort) }

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
