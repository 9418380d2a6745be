//go:build linux

package target

import "net/netip"

// ControlConnectionPort is the local port of an injector's connection to an application on
// the target's loopback, if it is free. A network disruption of the same target passes its
// packets: a gRPC disruption must end while packets are lost.
const ControlConnectionPort = 7359

// Loopback has the addresses of that connection.
var Loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
