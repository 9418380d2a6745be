package activities

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/choose"
	"github.com/squall-chaos/squall/activities/inject"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// An edit does not change chaos pods that are created after it, even by a worker that
// started after it (rule 8).
func TestAChaosPodMadeAfterAnEditHasTheFirstParameters(t *testing.T) {
	c := newCluster(t)
	c.MakeTargets(1, nil)
	ref := c.started("calm", func(spec *v1beta1.DisruptionSpec) {
		spec.Faults = v1beta1.Faults{Network: &v1beta1.NetworkDisruption{Drop: 40}}
	})
	first := c.injections(ref)
	if len(first) != 1 {
		t.Fatalf("%d chaos pods, want one: there is one target", len(first))
	}
	live := c.Get(ref)
	many := intstr.FromInt32(5)
	live.Spec.Count, live.Spec.Selector, live.Spec.DryRun = &many, map[string]string{"app": "other"}, true
	live.Spec.Network.Drop, live.Spec.CPUPressure = 90, &v1beta1.CPUPressure{}
	c.Must(c.Plain.Put().Namespace(ref.Namespace).Resource("disruptions").Name(ref.Name).Body(live).Do(t.Context()).Error())
	c.restartWorker()
	c.MakeTargets(3, nil)
	c.MakeTargets(3, map[string]string{"app": "other"})
	for _, number := range do[targets.Selection](c, c.SelectTargets, choose.Input{Disruption: ref, Known: 1, Run: 1}).Added {
		do[inject.CreateResult](c, c.CreateChaosPods, inject.CreateInput{Shard: chaospod.Shard{Disruption: ref, Number: number}})
	}
	all := c.injections(ref)
	if len(all) != 2 {
		t.Errorf("%d chaos pods, want 2: the first count is 2, and the first spec has one kind", len(all))
	}
	for _, injection := range all {
		pod, err := c.Kube.CoreV1().Pods(c.Shop).Get(t.Context(), injection.Target.Name, metav1.GetOptions{})
		c.Must(err)
		if pod.Labels["app"] != "web" {
			t.Errorf("target %s has label app=%s, want web: the selector was edited", pod.Name, pod.Labels["app"])
		}
		injection.Target = first[0].Target
		if left, at := injection.Remaining.Duration, first[0].Remaining.Duration; left > at || left < at-time.Minute {
			t.Errorf("the chaos pod of %s was told that %s remain, the first one %s", pod.Name, left, at)
		}
		injection.Remaining = first[0].Remaining // it was made later
		if diff := cmp.Diff(first[0], injection); diff != "" {
			t.Errorf("the chaos pod of %s was not made as the first one (-first +this):\n%s", pod.Name, diff)
		}
	}
}

// injections are the instructions of a disruption's chaos pods.
func (c *testCluster) injections(ref v1beta1.DisruptionRef) (all []v1beta1.Injection) {
	c.Helper()
	for _, pod := range c.ChaosPodsOf(ref) {
		injection := v1beta1.Injection{}
		c.Must(json.Unmarshal([]byte(pod.Spec.Containers[0].Env[0].Value), &injection))
		all = append(all, injection)
	}
	return all
}
