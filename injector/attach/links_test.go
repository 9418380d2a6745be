//go:build linux

package attach

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/classifier"
)

func TestHooks(t *testing.T) {
	lo := Link{Index: 1, Name: "lo", Loopback: true}
	eth := Link{Index: 2, Name: "eth0"}
	for name, test := range map[string]struct {
		links []Link
		level v1beta1.Level
		want  []string
	}{
		"pod: all links, loopback on egress alone": {
			[]Link{lo, eth, {Index: 3, Name: "tunl0", Type: "ipip"}}, v1beta1.LevelPod,
			[]string{"egress lo", "egress eth0", "ingress eth0", "egress tunl0", "ingress tunl0"}},
		"node: not the loopback": {
			[]Link{lo, eth}, v1beta1.LevelNode, []string{"egress eth0", "ingress eth0"}},
		"a bond is judged, its parts are not": {
			[]Link{{Index: 2, Name: "a", Master: 4}, {Index: 3, Name: "b", Master: 4}, {Index: 4, Name: "bond0", Type: "bond"}}, v1beta1.LevelNode,
			[]string{"egress bond0", "ingress bond0"}},
		"a bridge is judged, its ports are not": {
			[]Link{{Index: 2, Name: "br0", Type: "bridge"}, {Index: 3, Name: "veth1", Type: "veth", Master: 2}}, v1beta1.LevelNode,
			[]string{"egress br0", "ingress br0"}},
		"parts of a switch that carries nothing itself are judged": {
			[]Link{{Index: 2, Name: "ovs-system", Type: "openvswitch"}, {Index: 3, Name: "veth1", Type: "veth", Master: 2}}, v1beta1.LevelNode,
			[]string{"egress ovs-system", "ingress ovs-system", "egress veth1", "ingress veth1"}},
		"a VLAN is judged at its parent": {
			[]Link{eth, {Index: 3, Name: "eth0.7", Type: "vlan", Parent: 2}}, v1beta1.LevelNode,
			[]string{"egress eth0", "ingress eth0"}},
		"a macvlan whose parent is elsewhere is judged": {
			[]Link{lo, {Index: 3, Name: "eth0", Type: "macvlan"}}, v1beta1.LevelNode,
			[]string{"egress eth0", "ingress eth0"}},
		"both ends of a cable are judged": {
			[]Link{{Index: 2, Name: "a", Type: "veth", Parent: 3}, {Index: 3, Name: "b", Type: "veth", Parent: 2}}, v1beta1.LevelNode,
			[]string{"egress a", "ingress a", "egress b", "ingress b"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, hook := range Hooks(test.links, test.level, []classifier.Direction{classifier.Egress, classifier.Ingress}) {
				got = append(got, string(hook.Direction)+" "+hook.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Hooks(%+v) (-want +got):\n%s", test.links, diff)
			}
		})
	}
}
