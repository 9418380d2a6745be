package targets

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/contract"
)

// A record is a ConfigMap in the chaos namespace. It keeps what the workflow must not
// forget and what is too large for its history. One record has the spec as it was when
// the disruption began, and there is one for each shard of targets.
const (
	labelRecord     = "chaos.squall.dev/record" // record: `spec` or `targets`
	recordSpec      = "spec"
	recordTargets   = "targets"
	keyDisruption   = "disruption"
	keyTargets      = "targets"
	annotationKinds = "chaos.squall.dev/kinds" // record: faults of its disruption
	// shardSize is how many targets one record holds.
	shardSize = 200
)

// Target is one chosen pod or node.
type Target struct {
	v1beta1.InjectionTarget `json:",inline"`
	// Ended is why the target is no longer disrupted; empty while it is. The target stays
	// in the record so that it is not chosen again (rule 18).
	Ended string `json:"ended,omitempty"`
	// EndedBy is the activity that ended it. If the worker dies before the workflow has
	// the result, the activity's next attempt returns the target again.
	EndedBy string `json:"endedBy,omitempty"`
	// Again is true for a target that ended and was never injected. Squall may choose it
	// again, with the containers that it has then. Tries counts how often that was done
	// before. EndedAt is when it ended, if Again or Lost is true.
	Again   bool         `json:"again,omitempty"`
	Tries   int          `json:"tries,omitempty"`
	EndedAt *metav1.Time `json:"endedAt,omitempty"`
	// Returns is true for a target that matched no longer or was surplus. Squall may
	// choose the target again, without a limit.
	Returns bool `json:"returns,omitempty"`
	// Lost is true for a target that ended although no one asked for it.
	// spec.maxLostTargets bounds how many of these are replaced.
	Lost bool `json:"lost,omitempty"`
	// Run counts the choices of targets before the one that chose this target.
	Run int `json:"run,omitempty"`
	// Limits are the rules of policies that select some targets only, bound how many are
	// disrupted at once, and count this one.
	Limits []string `json:"limits,omitempty"`
	// Replacement is the worker's progress in replacing the target; nil before it begins,
	// and for disruptions that replace no pods.
	Replacement *Replacement `json:"replacement,omitempty"`
	// Operation is the progress of the disruption's operation on the pod; empty before it
	// begins, and without one.
	Operation OperationState `json:"operation,omitempty"`
}

// OperationState is the progress of a disruption's operation on a target.
type OperationState string

// The states of an operation. The disruption waits while a pod is Asked for. It may
// disrupt a pod that is Given, or that is Unmanaged because no driver moves it.
const (
	OperationAsked     OperationState = "Asked"
	OperationGiven     OperationState = "Given"
	OperationUnmanaged OperationState = "Unmanaged"
)

// Replacement is the worker's progress in replacing a pod.
type Replacement struct {
	// State is Replacing until the worker has finished.
	State ReplacementState `json:"state"`
	// Since is when the state began.
	Since metav1.Time `json:"since"`
	// Why the pod is NotReplaced, or not replaced yet.
	Why string `json:"why,omitempty"`
	// WaitsSince is when a pod that is Replacing began to wait for its node's cordon.
	// It is nil once the worker may cordon the node.
	WaitsSince *metav1.Time `json:"waitsSince,omitempty"`
	// Claims are the PersistentVolumeClaims that are deleted with a pod that is Replacing,
	// Shared those that stay, as other pods mount them, too.
	Claims []string `json:"claims,omitempty"`
	Shared []string `json:"shared,omitempty"`
}

// ReplacementState is the result for a pod that the worker replaces.
type ReplacementState string

// The states of a replacement. A pod that is Replacing and gone was replaced.
const (
	Replacing   ReplacementState = "Replacing"
	Replaced    ReplacementState = "Replaced"
	NotReplaced ReplacementState = "NotReplaced"
)

// Attempts at a target whose chaos pods end without having injected: quickTries follow
// at once, further ones after a pause that doubles from firstPause to longestPause.
const (
	quickTries   = 3
	firstPause   = 15 * time.Second
	longestPause = time.Minute
)

// nextTry is when a target that was never injected may be chosen again.
func (t Target) nextTry() time.Time {
	late := t.Tries + 1 - quickTries
	if late < 0 || t.EndedAt == nil {
		return time.Time{}
	}
	return t.EndedAt.Add(min(firstPause<<min(late, 8), longestPause))
}

// Ending is why a target is no longer disrupted.
type Ending struct {
	// Why is empty for a target that is still disrupted.
	Why string
	// NeverInjected is true when nothing can have been injected into the target.
	NeverInjected bool
	// Lost is true when no one asked for the end.
	Lost bool
	// Returns is true when the target may be chosen again, though it was injected.
	Returns bool
}

// Active is true while the target is disrupted, or is to be.
func (t Target) Active() bool { return t.Ended == "" }

// MayBeDisrupted is true for an active target of an operation that the driver has granted,
// or that no driver manages.
func (t Target) MayBeDisrupted() bool {
	return t.Active() && (t.Operation == OperationGiven || t.Operation == OperationUnmanaged)
}

// Shard is one record of targets.
type Shard struct {
	Number  int
	Targets []Target
	object  *corev1.ConfigMap
	// forgotten is what the record keeps of targets that it held once.
	forgotten Forgotten
	// broken is why the record cannot be read; nil when it can.
	broken error
}

// Active returns the targets of all these shards that are disrupted, or are to be.
func Active(shards []Shard) []Target {
	var active []Target
	for _, shard := range shards {
		for _, target := range shard.Targets {
			if target.Active() {
				active = append(active, target)
			}
		}
	}
	return active
}

// Shards returns the disruption's shards in order.
func (s *Store) Shards(ctx context.Context, ref v1beta1.DisruptionRef) ([]Shard, error) {
	found, err := s.listShards(ctx, labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID), labelRecord: recordTargets})
	if err != nil {
		return nil, fmt.Errorf("list the shards of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	for _, shard := range found {
		if shard.broken != nil {
			return nil, shard.broken
		}
	}
	sortShards(found)
	return found, nil
}

// listShards reads the records with these labels live.
func (s *Store) listShards(ctx context.Context, selector labels.Set) ([]Shard, error) {
	found := map[string]Shard{}
	err := kube.Pages(ctx, s.Kube.CoreV1().ConfigMaps(s.Namespace).List, metav1.ListOptions{LabelSelector: selector.String()}, func(page *corev1.ConfigMapList) {
		for _, record := range page.Items {
			keep(found, &record)
		}
	})
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(found)), nil
}

func sortShards(all []Shard) {
	slices.SortFunc(all, func(a, b Shard) int { return cmp.Compare(a.Number, b.Number) })
}

// Shard returns one shard.
func (s *Store) Shard(ctx context.Context, ref v1beta1.DisruptionRef, number int) (Shard, error) {
	object, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Get(ctx, shardName(ref.UID, number), metav1.GetOptions{})
	if err != nil {
		return Shard{}, fmt.Errorf("read shard %d of disruption %s/%s: %w", number, ref.Namespace, ref.Name, err)
	}
	return readShard(object)
}

// ShardAt returns the shard as it was at a version that Claim returned. It makes no
// call if the watch holds that version. The caller must not change its targets.
func (s *Store) ShardAt(ctx context.Context, ref v1beta1.DisruptionRef, number int, version string) (Shard, error) {
	if held, found := s.Watch.at(shardName(ref.UID, number), version); found {
		return held, nil
	}
	return s.Shard(ctx, ref, number)
}

// ShardsAt is ShardAt for all shards. versions are those of the shards, from the first;
// without any it reads live.
func (s *Store) ShardsAt(ctx context.Context, ref v1beta1.DisruptionRef, versions []string) ([]Shard, error) {
	var all []Shard
	for number, version := range versions {
		held, found := s.Watch.at(shardName(ref.UID, number), version)
		if !found {
			return s.Shards(ctx, ref)
		}
		all = append(all, held)
	}
	if len(all) == 0 {
		return s.Shards(ctx, ref)
	}
	return all, nil
}

// ShardsNow returns the shards that the watch holds, without a call, or reads live if
// no watch has listed yet. The caller must not change their targets.
func (s *Store) ShardsNow(ctx context.Context, ref v1beta1.DisruptionRef) ([]Shard, error) {
	found, seen := s.Watch.of(ref)
	if !seen {
		return s.Shards(ctx, ref)
	}
	for _, shard := range found {
		if shard.broken != nil {
			return nil, shard.broken
		}
	}
	return found, nil
}

// ShardsAndChanges is ShardsNow, and a channel that is closed when some record of any
// disruption changes. The channel is nil where nothing watches.
func (s *Store) ShardsAndChanges(ctx context.Context, ref v1beta1.DisruptionRef) ([]Shard, <-chan struct{}, error) {
	var changed <-chan struct{}
	if s.Watch != nil {
		_, _, changed = s.Watch.now(nil)
	}
	shards, err := s.ShardsNow(ctx, ref)
	return shards, changed, err
}

// Newer is true when a list of a disruption's shards is of a later moment than another.
// A watch that is late returns an earlier one.
func Newer(before, now []Shard) bool {
	if len(now) < len(before) {
		return false
	}
	newer := len(now) > len(before)
	for i := range before {
		was, is := before[i].Version(), now[i].Version()
		if is != was && older(is, was) {
			return false
		}
		newer = newer || is != was
	}
	return newer
}

// Owner makes the record the controller of chaos pods: kubectl drain and the cluster
// autoscaler skip pods that have one. Deleting the record does not wait for these pods.
func (s Shard) Owner() metav1.OwnerReference {
	controller := true
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: s.object.Name, UID: s.object.UID, Controller: &controller}
}

// Version is the resource version of the record.
func (s Shard) Version() string { return s.object.ResourceVersion }

func readShard(object *corev1.ConfigMap) (Shard, error) {
	number, err := strconv.Atoi(object.Labels[v1beta1.LabelShard])
	if err != nil {
		return Shard{}, fmt.Errorf("record %s: label %s: %w", object.Name, v1beta1.LabelShard, err)
	}
	read := Shard{Number: number, object: object}
	if err := json.Unmarshal([]byte(object.Data[keyTargets]), &read.Targets); err != nil {
		return Shard{}, fmt.Errorf("decode record %s: %w", object.Name, err)
	}
	return read, read.readForgotten(object)
}

// newShard returns the record of newly chosen targets, not yet written.
func newShard(ref v1beta1.DisruptionRef, number int, kinds string, targets []Target) (*corev1.ConfigMap, error) {
	document, err := json.Marshal(targets)
	if err != nil {
		return nil, err
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: shardName(ref.UID, number), Labels: chaospod.OwnerLabels(ref),
			Annotations: map[string]string{annotationKinds: kinds},
		},
		Data: map[string]string{keyTargets: string(document)},
	}
	object.Labels[labelRecord] = recordTargets
	object.Labels[v1beta1.LabelShard] = strconv.Itoa(number)
	return object, nil
}

// End marks targets of a shard as no longer disrupted, so that they are neither counted
// nor chosen again (rule 18). of returns for each active target whether and why it has
// ended; a target that was never injected may be chosen again. by names the calling
// activity. A retry of the activity returns the targets that it marked before, too.
func (s *Store) End(ctx context.Context, ref v1beta1.DisruptionRef, number int, by string, of func(Target) Ending) (ended []Target, err error) {
	shard, err := s.Shard(ctx, ref, number)
	if err != nil {
		return nil, err
	}
	changed := false
	for i := range shard.Targets {
		target := &shard.Targets[i]
		if target.Active() {
			if ending := of(*target); ending.Why != "" {
				changed = true
				target.End(ending, by)
			}
		}
		if target.EndedBy == by {
			ended = append(ended, *target)
		}
	}
	if !changed {
		return ended, nil
	}
	return ended, s.Write(ctx, &shard)
}

// End marks the target as no longer disrupted; by names the calling activity.
func (t *Target) End(ending Ending, by string) {
	t.Ended, t.EndedBy = ending.Why, by
	t.Again, t.Lost, t.Returns = ending.NeverInjected, ending.Lost, ending.Returns
	if t.Again || t.Lost {
		now := metav1.Now()
		t.EndedAt = &now
	}
}

// Write stores the shard's targets. It fails if the record has changed since it was
// read.
func (s *Store) Write(ctx context.Context, shard *Shard) error {
	document, err := json.Marshal(shard.Targets)
	if err != nil {
		return err
	}
	object := shard.object.DeepCopy()
	object.Data = map[string]string{keyTargets: string(document)}
	if err := shard.noteForgotten(object); err != nil {
		return err
	}
	written, err := s.Kube.CoreV1().ConfigMaps(s.Namespace).Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write shard %s: %w", shard.object.Name, err)
	}
	shard.object = written
	return nil
}

func shardName(uid types.UID, number int) string {
	return fmt.Sprintf("%s-%d", contract.RecordName(uid), number)
}
