package supervise

import (
	"fmt"
	"testing"
)

func TestRouted(t *testing.T) {
	const routes = `default via 192.0.2.1 dev eth0
10.96.0.0/16 via 10.231.0.11 dev sq-a6b10f
local 192.0.2.2 dev eth0 table local proto kernel scope host src 192.0.2.2
broadcast 127.255.255.255 dev lo table local
unreachable 10.9.0.0/24
`
	got := fmt.Sprint(routed(routes))
	want := "[192.0.2.1/32 10.96.0.0/16 192.0.2.2/32 127.255.255.255/32 10.9.0.0/24]"
	if got != want {
		t.Errorf("routed(...) = %s, want %s", got, want)
	}
}
