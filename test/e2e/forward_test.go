//go:build e2e

package e2e

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/squall-chaos/squall/cli/cluster"
)

// squall reaches a Service of the cluster, as it does Temporal's: here it is
// cluster DNS, which is asked over TCP (RFC 1035, 4.2.2).
func TestForwardToAService(t *testing.T) {
	w := start(t)
	client, err := cluster.New(w.config, "default")
	if err != nil {
		t.Fatal(err)
	}
	if address, err := client.Forward(t.Context(), "kube-system", "no-such-service", 53); address != "" || err != nil {
		t.Errorf("no such service: %q, %v; want nothing", address, err)
	}
	if _, err := client.Forward(t.Context(), "kube-system", "kube-dns", 54); err == nil {
		t.Error("a port that the service has not: no error")
	}
	address, err := client.Forward(t.Context(), "kube-system", "kube-dns", 53)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	question := []byte{0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range []string{"kubernetes", "default", "svc", "cluster", "local"} {
		question = append(append(question, byte(len(label))), label...)
	}
	question = append(question, 0, 0, 1, 0, 1)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(question))), question...)); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 14)
	if _, err := io.ReadFull(conn, head); err != nil || head[2] != 0x12 || head[3] != 0x34 || head[9] == 0 {
		t.Errorf("answer % x, %v; want one to our question", head, err)
	}
}
