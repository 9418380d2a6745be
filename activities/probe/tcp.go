package probe

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// tcpSocket succeeds when a connection is made, and closes it.
func (p *Prober) tcpSocket(ctx context.Context, socket *v1beta1.TCPSocketProbe, target *Target) (Answer, error) {
	place, err := target.place(socket.Host, socket.Port)
	if err != nil {
		return Answer{}, err
	}
	conn, err := p.dial(target)(ctx, "tcp", place)
	if err != nil {
		return failed(err)
	}
	_ = conn.Close() // the connection was the question
	return Answer{Result: Success, Text: "connected"}, nil
}
