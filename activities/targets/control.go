package targets

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	recordControl = "control"
	keyControl    = "control"
)

// ControlGroup are the pods that a disruption leaves undisrupted to compare its targets
// with. They are no claim: another disruption may choose them.
type ControlGroup struct {
	// Wanted is how many pods the spec asks for.
	Wanted int          `json:"wanted"`
	Pods   []ControlPod `json:"pods,omitempty"`
}

// ControlPod is one pod of the group.
type ControlPod struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// uids returns the UIDs of the group's pods; empty for nil.
func (g *ControlGroup) uids() map[types.UID]bool {
	all := map[types.UID]bool{}
	if g != nil {
		for _, pod := range g.Pods {
			all[pod.UID] = true
		}
	}
	return all
}

// Keep marks the candidates that belong to the group, so that they are not chosen as
// targets. A nil group has none.
func (g *ControlGroup) Keep(healthy []Candidate) {
	group := g.uids()
	for i := range healthy {
		healthy[i].control = group[healthy[i].Target.UID]
	}
}

// chooseControl takes at random as many candidates as are wanted and free. A target of
// this disruption, now or before, or of another one is not free.
func chooseControl(spec v1beta1.DisruptionSpec, healthy []Candidate, claims Claims) ControlGroup {
	matching := Tally(spec, healthy, claims.Own).Matching
	group := ControlGroup{Wanted: spec.SteadyState.ControlWanted(matching)}
	ever := past(claims.Own, time.Now())
	var free []Candidate
	for _, c := range healthy {
		uid := c.Target.UID
		if c.usable() && c.Operation == "" && ever[uid] == 0 && claims.Holders[uid] == "" && !claims.held[uid] {
			free = append(free, c)
		}
	}
	rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, c := range free[:min(group.Wanted, len(free))] {
		group.Pods = append(group.Pods, ControlPod{c.Target.Name, c.Target.UID})
	}
	return group
}

// ChooseControl chooses the control group once. A later call returns the group of the
// first, even an empty one.
func (s *Store) ChooseControl(ctx context.Context, d *v1beta1.Disruption, healthy []Candidate, claims Claims) (*ControlGroup, error) {
	group := chooseControl(d.Spec, healthy, claims)
	document, err := json.Marshal(group)
	if err != nil {
		return nil, err
	}
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: controlName(d.UID), Labels: chaospod.OwnerLabels(d.Ref())},
		Data:       map[string]string{keyControl: string(document)},
	}
	record.Labels[labelRecord] = recordControl
	_, err = s.Kube.CoreV1().ConfigMaps(s.Namespace).Create(ctx, record, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return s.LoadControl(ctx, d.Ref())
	}
	if err != nil {
		return nil, fmt.Errorf("write the control group of disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	return &group, nil
}

// LoadControl returns the control group; nil before it was chosen.
func (s *Store) LoadControl(ctx context.Context, ref v1beta1.DisruptionRef) (*ControlGroup, error) {
	record, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, controlName(ref.UID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the control group of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	group := &ControlGroup{}
	if err := json.Unmarshal([]byte(record.Data[keyControl]), group); err != nil {
		return nil, fmt.Errorf("decode record %s: %w", record.Name, err)
	}
	return group, nil
}

// DisturbedNow returns the members of the group that some disruption targets, as far as
// the watch knows.
func (s *Store) DisturbedNow(group *ControlGroup) map[types.UID]bool {
	if s.Watch == nil || group == nil {
		return nil
	}
	all, _, _ := s.Watch.now(nil)
	ours, disturbed := group.uids(), map[types.UID]bool{}
	for _, shard := range all {
		for _, target := range shard.Targets {
			if ours[target.UID] && target.Active() {
				disturbed[target.UID] = true
			}
		}
	}
	return disturbed
}

func controlName(uid types.UID) string { return contract.RecordName(uid) + "-control" }
