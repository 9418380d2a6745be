package campaign

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A chaos pod is unwanted when its target is not selected, even if it looks like one
// that is, and when its injection is not that of the first spec.
func TestUnwanted(t *testing.T) {
	pod := func(uid, slot, chosen string) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "target-" + slot, UID: types.UID(uid), Labels: map[string]string{"campaign": "yes", "slot": slot}, Annotations: map[string]string{"chosen": chosen},
		}}
	}
	pods := []corev1.Pod{pod("uid-0", "0", "yes"), pod("uid-1", "1", "yes"), pod("uid-2", "2", "no")}
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "one", UID: "node-1", Labels: map[string]string{"kubernetes.io/hostname": "one"}}}}
	const (
		cpu      = "{selector: {slot: '0'}, cpuPressure: {count: 10%}, count: 1, duration: 30s}"
		advanced = "{selector: {campaign: 'yes'}, advancedSelector: [{key: slot, operator: In, values: ['1', '2']}], filter: {annotations: {chosen: 'yes'}}, cpuPressure: {count: 10%}, count: 1}"
		node     = "{level: node, selector: {kubernetes.io/hostname: one}, cpuPressure: {count: 10%}, count: 1}"
		pulse    = "{selector: {slot: '0'}, network: {drop: 10}, pulse: {activeDuration: 2s, dormantDuration: 3s}, count: 1}"
	)
	order := func(kind v1beta1.Kind, params string) v1beta1.Injection {
		return v1beta1.Injection{Kind: kind, Params: json.RawMessage(params), Level: v1beta1.LevelPod}
	}
	pressure := order(v1beta1.KindCPUPressure, `{"count":"10%"}`)
	onNode, dry := pressure, pressure
	onNode.Level, dry.DryRun = v1beta1.LevelNode, true
	for name, c := range map[string]struct {
		spec, target, uid string
		injection         *v1beta1.Injection
		want              string // empty: nothing is wrong
	}{
		"as it was asked for":                       {cpu, "target-0", "uid-0", &pressure, ""},
		"a pod of another slot":                     {cpu, "target-1", "uid-1", &pressure, "is not selected"},
		"a pod of the same name, another one":       {cpu, "target-0", "uid-9", &pressure, "is not selected"},
		"a node instead of a pod":                   {cpu, "one", "node-1", &pressure, "is not selected"},
		"selected by requirements and annotations":  {advanced, "target-1", "uid-1", &pressure, ""},
		"not with this annotation":                  {advanced, "target-2", "uid-2", &pressure, "is not selected"},
		"not with these requirements":               {advanced, "target-0", "uid-0", &pressure, "is not selected"},
		"a node":                                    {node, "one", "node-1", &onNode, ""},
		"a pod instead of a node":                   {node, "target-0", "uid-0", &onNode, "is not selected"},
		"the pod of a node's disruption acts on it": {node, "one", "node-1", &pressure, "level pod"},
		"other parameters":                          {cpu, "target-0", "uid-0", new(order(v1beta1.KindCPUPressure, `{"count":"20%"}`)), "parameters"},
		"another fault":                             {cpu, "target-0", "uid-0", new(order(v1beta1.KindNetwork, `{"drop":10}`)), "does not have"},
		"a dry run that was not asked for":          {cpu, "target-0", "uid-0", &dry, "dryRun"},
		"without the pulse":                         {pulse, "target-0", "uid-0", new(order(v1beta1.KindNetwork, `{"drop":10}`)), "pulse"},
		"a cleaner of the target":                   {cpu, "target-0", "uid-0", nil, ""},
		"a cleaner of another one":                  {cpu, "target-1", "uid-1", nil, "is not selected"},
		"a look at a node":                          {cpu, "", "", nil, ""},
	} {
		spec, err := specOf(parse(c.spec))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		chaos := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1beta1.LabelTarget: c.target, v1beta1.LabelTargetUID: c.uid}}}
		if c.injection != nil {
			text, err := json.Marshal(c.injection)
			if err != nil {
				t.Fatal(err)
			}
			chaos.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: v1beta1.InjectionEnv, Value: string(text)}}}}
		}
		if got := unwanted(spec, chaos, pods, nodes); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%s: unwanted is %q, want %q", name, got, c.want)
		}
	}
}
