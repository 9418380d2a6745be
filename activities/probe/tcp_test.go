package probe

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// rules P1 and P2
func TestTCPSocket(t *testing.T) {
	address, _ := silent(t)
	host, port := hostPort(t, address)
	_, closed := hostPort(t, unusedPort(t))
	_, full := hostPort(t, overrun(t))
	target := onePod(host, corev1.ContainerPort{Name: "db", ContainerPort: port.IntVal})
	for _, c := range []struct {
		name   string
		host   string
		port   intstr.IntOrString
		target *Target
		want   outcome
		text   string
	}{
		{"a connection is made", host, port, nil, succeeds, "connected"},
		{"a refused connection: one attempt", host, closed, nil, fails, fmt.Sprintf("dial tcp 127.0.0.1:%d: connect: connection refused", closed.IntVal)},
		{"no connection in time: one attempt", host, full, nil, fails, "no answer in time"},
		{"the name of a container's port", "", intstr.FromString("db"), target, succeeds, "connected"},
		{"a name that no port has is an error: three attempts", "", intstr.FromString("web"), target, errs, `container app of pod checkout-1 has no port of the name "web"`},
		{"a place that must not be asked is an error", elsewhere, port, nil, errs, "192.0.2.1 must not be asked: it is elsewhere"},
	} {
		t.Run(c.name, func(t *testing.T) {
			probe := v1beta1.Probe{TimeoutSeconds: timeLimit(c.text), ProbeHandler: v1beta1.ProbeHandler{TCPSocket: &v1beta1.TCPSocketProbe{Host: c.host, Port: c.port}}}
			if answer := wantOutcome(t, anyProber(), probe, c.target, c.want); answer.Text != c.text {
				t.Errorf("text %q, want %q", answer.Text, c.text)
			}
		})
	}
}
