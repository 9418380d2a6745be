package listener

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/listener/protocol"
)

func one(alterations ...protocol.Alteration) protocol.Spec {
	return protocol.Spec{Endpoints: []protocol.Endpoint{{TargetEndpoint: "/a.B/c", Alterations: alterations}}}
}

func TestShares(t *testing.T) {
	a, b, c := protocol.Alteration{ErrorToReturn: "ABORTED"}, protocol.Alteration{OverrideToReturn: "{}"}, protocol.Alteration{ErrorToReturn: "OK"}
	of := func(a protocol.Alteration, percent int32) protocol.Alteration {
		a.QueryPercent = percent
		return a
	}
	for _, test := range []struct {
		alterations []protocol.Alteration
		want        string // how many slots of ABORTED, {} and OK
	}{
		{[]protocol.Alteration{a}, "100 0 0"},
		{[]protocol.Alteration{of(a, 1)}, "1 0 0"},
		{[]protocol.Alteration{a, b, c}, "33 33 34"},
		{[]protocol.Alteration{of(a, 98), b, c}, "98 1 1"},
		{[]protocol.Alteration{a, of(b, 25), c}, "37 25 38"},
		{[]protocol.Alteration{of(a, 60), of(b, 40)}, "60 40 0"},
		{nil, "0 0 0"},
	} {
		slots, err := share(test.alterations)
		seen := map[string]int{}
		for _, slot := range slots {
			seen[slot.ErrorToReturn+slot.OverrideToReturn]++
		}
		if got := fmt.Sprint(seen["ABORTED"], seen["{}"], seen["OK"]); got != test.want || err != nil {
			t.Errorf("%v: slots %s, %v, want %s", test.alterations, got, err, test.want)
		}
	}
}

func TestRefusedOrders(t *testing.T) {
	for name, spec := range map[string]protocol.Spec{
		"want /package.Service/Method": {Endpoints: []protocol.Endpoint{{}}},
		"want either":                  one(protocol.Alteration{}),
		`error "ABORTED", override`:    one(protocol.Alteration{ErrorToReturn: "ABORTED", OverrideToReturn: "{}"}),
		`error "aborted"`:              one(protocol.Alteration{ErrorToReturn: "aborted"}),
		"more than 100%":               one(protocol.Alteration{ErrorToReturn: "OK", QueryPercent: 60}, protocol.Alteration{OverrideToReturn: "{}", QueryPercent: 41}),
		"lower a queryPercent":         one(protocol.Alteration{ErrorToReturn: "OK", QueryPercent: 100}, protocol.Alteration{OverrideToReturn: "{}"}),
	} {
		var l Listener
		err := l.disrupt(spec)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), name) || len(l.slots) > 0 {
			t.Errorf("%v: %v, slots %d, want %q and none", spec, err, len(l.slots), name)
		}
	}
}

func TestSecondOrderIsRefusedUntilReset(t *testing.T) {
	var l Listener
	full := one(protocol.Alteration{ErrorToReturn: "ABORTED"})
	for _, step := range []struct {
		spec protocol.Spec
		want codes.Code
	}{{protocol.Spec{}, codes.OK}, {full, codes.OK}, {full, codes.AlreadyExists}, {protocol.Spec{}, codes.AlreadyExists}} {
		if got := status.Code(l.disrupt(step.spec)); got != step.want {
			t.Errorf("%v: %s, want %s", step.spec, got, step.want)
		}
	}
	l.reset()
	l.reset()
	if err := l.disrupt(full); err != nil {
		t.Errorf("after a reset: %v", err)
	}
}
