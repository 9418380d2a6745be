//go:build linux

package network

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/test/losstest"
	"github.com/squall-chaos/squall/test/testneeds"
)

// everyMechanism runs a test once with each mechanism, forced.
func everyMechanism(t *testing.T, test func(t *testing.T, w *world, try attach.Mechanism)) {
	everyMechanismOn(t, func(*testing.T, *world) {}, test)
}

// everyMechanismOn is everyMechanism after a preparation. At the end everything
// must be as it was after the preparation.
func everyMechanismOn(t *testing.T, prepare func(*testing.T, *world), test func(*testing.T, *world, attach.Mechanism)) {
	for name, try := range map[string]attach.Mechanism{"tcx": attach.TCX, "cls_bpf": attach.Clsact} {
		t.Run(name, func(t *testing.T) {
			needMechanism(t, name)
			w := newWorld(t)
			prepare(t, w)
			before := state(t, w.target)
			test(t, w, try)
			if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
				t.Errorf("the namespace is not as before (-before +after):\n%s", diff)
			}
		})
	}
}

func needMechanism(t *testing.T, name string) {
	t.Helper()
	testneeds.BeRoot(t)
	text, err := New(v1beta1.NetworkDisruption{}, nil, nil).Probe()
	if err != nil || !strings.Contains(text, name) {
		testneeds.Missing(t, testneeds.AttachMechanism, name, ", probe: ", text, ", ", err)
	}
}

func clean(t *testing.T, i *Injector) {
	t.Helper()
	for range 2 {
		if err := i.Clean(context.Background()); err != nil {
			t.Errorf("Clean() = %v", err)
		}
	}
}

func TestDropTakesItsShareOfWhatMatches(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 40, Hosts: []v1beta1.NetworkHost{
			{Host: hostIPv4, Port: 7000, Protocol: "udp"}, {Host: hostIPv6, Port: 7000},
		}}, try)
		for name, traffic := range map[string]traffic{
			"IPv4": w.out(hostIPv4, 7000, 5000), "IPv6": w.out(hostIPv6, 7000, 5000),
		} {
			low, high := losstest.Bounds(5000, 40)
			if got := lost(t, traffic); got < low || got > high {
				t.Errorf("%s: %d of 5000 lost, want %d to %d", name, got, low, high)
			}
		}
		for name, traffic := range map[string]traffic{
			"other port": w.out(hostIPv4, 7001, 1000), "other host": w.out(otherIPv4, 7000, 1000),
			"other IPv6 port": w.out(hostIPv6, 7001, 1000), "other IPv6 host": w.out(otherIPv6, 7000, 1000),
			"what comes in": w.in(hostIPv4, 7000, 1000),
		} {
			if got := lost(t, traffic); got != 0 {
				t.Errorf("%s: %d of 1000 lost, want 0", name, got)
			}
		}
		clean(t, i)
		if got := lost(t, w.out(hostIPv4, 7000, 1000)); got != 0 {
			t.Errorf("after cleaning: %d of 1000 lost, want 0", got)
		}
	})
}

func TestIngressDropsByRemoteHostAndLocalPort(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
			{Host: hostIPv4, Port: 8000, Flow: "ingress"},
		}}, try)
		if got := lost(t, w.in(hostIPv4, 8000, 500)); got != 500 {
			t.Errorf("from the host to the port: %d of 500 lost, want all", got)
		}
		for name, traffic := range map[string]traffic{
			"from another host": w.in(otherIPv4, 8000, 500), "to another port": w.in(hostIPv4, 8001, 500),
			"what goes out": w.out(hostIPv4, 8000, 500),
		} {
			if got := lost(t, traffic); got != 0 {
				t.Errorf("%s: %d of 500 lost, want 0", name, got)
			}
		}
		clean(t, i)
	})
}

func TestEverythingDropsButTheAllowedAndTheSafeguards(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		w.injection.AllowedHosts = []v1beta1.NetworkHost{{Host: otherIPv4 + "/32"}}
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, AllowedHosts: []v1beta1.NetworkHost{{Host: "fd09::11"}}}, try)
		for name, test := range map[string]struct {
			traffic traffic
			want    int
		}{
			"host":                    {w.out(hostIPv4, 7000, 300), 300},
			"IPv6 host":               {w.out(hostIPv6, 7000, 300), 300},
			"itself, by loopback":     {traffic{from: w.target, to: w.target, address: "127.0.0.1", port: 7000, count: 300}, 300},
			"default gateway":         {w.out(gatewayIPv4, 7000, 300), 0},
			"IPv6 default gateway":    {w.out(gatewayIPv6, 7000, 300), 0},
			"node":                    {w.out(nodeIPv4, 7000, 300), 0},
			"allowed by the operator": {w.out(otherIPv4, 7000, 300), 0},
			"allowed by the user":     {w.out(otherIPv6, 7000, 300), 0},
		} {
			if got := lost(t, test.traffic); got != test.want {
				t.Errorf("%s: %d of 300 lost, want %d", name, got, test.want)
			}
		}
		clean(t, i)
	})
}

func TestGatewayNamedExactlyIsDropped(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
			{Host: gatewayIPv4, Port: 53}, {Host: "10.9.0.0/24"},
		}}, try)
		for name, test := range map[string]struct {
			traffic traffic
			want    int
		}{
			"gateway, the port named":    {w.out(gatewayIPv4, 53, 300), 300},
			"gateway, another port":      {w.out(gatewayIPv4, 54, 300), 0},
			"another host of the subnet": {w.out(otherIPv4, 54, 300), 300},
		} {
			if got := lost(t, test.traffic); got != test.want {
				t.Errorf("%s: %d of 300 lost, want %d", name, got, test.want)
			}
		}
		clean(t, i)
	})
}

func TestTCPConnectionsFail(t *testing.T) {
	everyMechanism(t, func(t *testing.T, w *world, try attach.Mechanism) {
		if !w.connects(t, hostIPv4, 443) {
			t.Fatal("no connection even before the injection")
		}
		i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100, Hosts: []v1beta1.NetworkHost{
			{Host: hostIPv4, Port: 443, Protocol: "tcp"}, {Host: hostIPv6, Port: 443},
		}}, try)
		if !w.isCut(t, hostIPv4, 443) || !w.isCut(t, hostIPv6, 443) {
			t.Error("a connection to the host came to be")
		}
		if !w.connects(t, hostIPv4, 444) || !w.connects(t, otherIPv6, 443) {
			t.Error("no connection to another port or host")
		}
		if got := lost(t, w.out(hostIPv4, 443, 300)); got != 0 {
			t.Errorf("UDP to the port: %d of 300 lost, want 0", got)
		}
		clean(t, i)
		if !w.connects(t, hostIPv4, 443) {
			t.Error("no connection after cleaning")
		}
	})
}

func TestFirstMechanismThatWorksIsUsed(t *testing.T) {
	needMechanism(t, "cls_bpf")
	w := newWorld(t)
	before := state(t, w.target)
	broken := func(attach.Point) (attach.Attachment, error) { return nil, errors.New("broken") }
	i := w.inject(t, v1beta1.NetworkDisruption{Drop: 100}, broken, attach.Clsact, broken)
	if got := i.namespaces[0].attached.Name(); got != "cls_bpf" {
		t.Errorf("mechanism = %s, want the second", got)
	}
	clean(t, i)
	i.journal.Close()

	i = w.injector(t, v1beta1.NetworkDisruption{Drop: 100}, broken, broken)
	err := i.Inject(context.Background())
	for _, want := range []string{"cls_bpf", "node node", "broken; broken", "nothing was changed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Inject() = %v, want it to say %q", err, want)
		}
	}
	if diff := cmp.Diff(before, state(t, w.target)); diff != "" {
		t.Errorf("after the refusal (-before +after):\n%s", diff)
	}
}
