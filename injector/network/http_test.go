//go:build linux

package network

import (
	"net"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
)

// answers is true if a request arrives and is echoed before the limit.
func answers(t *testing.T, conn net.Conn, request string, limit time.Duration) bool {
	t.Helper()
	must(t, conn.SetDeadline(time.Now().Add(limit)))
	_, err := conn.Write([]byte(request))
	must(t, err)
	_, err = conn.Read(make([]byte, 1))
	return err == nil
}

func TestOnlySomeRequestsAreDropped(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100,
			Hosts: []v1beta1.NetworkHost{{Host: hostIPv4}, {Host: hostIPv6}},
			HTTP:  &v1beta1.NetworkHTTP{Methods: []string{"GET", "DELETE"}, Paths: []string{"/api/", "/admin"}},
		}, try)
		for request, arrives := range map[string]bool{
			"GET /api/orders HTTP/1.1\r\n": false, "DELETE /admin HTTP/1.1\r\n": false,
			"GET /apis HTTP/1.1\r\n": true, "POST /api/orders HTTP/1.1\r\n": true, "no request, though it has GET /api/ in it": true,
		} {
			for _, address := range []string{hostIPv4 + ":8080", "[" + hostIPv6 + "]:8080"} {
				limit := 300 * time.Millisecond
				if arrives {
					limit = 20 * time.Second
				}
				if got := answers(t, w.talk(t, address), request, limit); got != arrives {
					t.Errorf("%q to %s: answered = %v, want %v", request, address, got, arrives)
				}
			}
		}
		if !answers(t, w.talk(t, otherIPv4+":8080"), "GET /api/orders HTTP/1.1\r\n", 20*time.Second) {
			t.Error("a request to another host is not answered")
		}
		clean(t, i)
	})
}
