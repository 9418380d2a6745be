package supervise

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/squall-chaos/squall/hack/cluster"
)

// forwardAll opens the ports of the host: the API server's for programs on the
// host, Temporal's, which listens on 127.0.0.1 only, for pods.
func (s *supervisor) forwardAll() error {
	c := s.cluster
	host, local := c.HostAddr().String(), "127.0.0.1"
	forwards := []struct{ from, to string }{
		{address(local, c.APIPort), address(c.ControlPlaneAddr().String(), cluster.APIPort)},
		{address(host, c.TemporalPort), address(local, c.TemporalPort)},
		{address(host, c.UIPort), address(local, c.UIPort)},
	}
	for _, f := range forwards {
		listener, err := net.Listen("tcp", f.from)
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("port %s is taken; choose another by flag, see devcluster up --help", f.from)
		}
		if err != nil {
			return fmt.Errorf("open %s: %w", f.from, err)
		}
		go accept(listener, f.to)
	}
	return nil
}

func accept(listener net.Listener, to string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return // only when the process ends
		}
		go relay(conn.(*net.TCPConn), to)
	}
}

// relay connects one connection to its destination and ends with both sides.
func relay(from *net.TCPConn, to string) {
	defer from.Close()
	conn, err := net.DialTimeout("tcp", to, 3*time.Second)
	if err != nil {
		return // the caller sees the connection closed, as it would without us
	}
	defer conn.Close()
	other := conn.(*net.TCPConn)
	var both sync.WaitGroup
	both.Go(func() { pump(other, from) })
	both.Go(func() { pump(from, other) })
	both.Wait()
}

// pump copies until the source ends, then closes the destination for writing.
func pump(to, from *net.TCPConn) {
	_, err := io.Copy(to, from)
	if err != nil {
		to.Close() // wake the other direction too
		return
	}
	_ = to.CloseWrite()
}

func address(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
