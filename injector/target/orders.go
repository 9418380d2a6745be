//go:build linux

package target

import "net/netip"

// OrdersPort is the local port from which an injector tells an application on the
// target's own loopback what to do, if it is free. A network disruption of the same
// target lets it pass: what was told has to be taken back while packets are lost.
const OrdersPort = 7359

// Loopback are the addresses at which that happens.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
