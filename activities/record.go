package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

// A record is a ConfigMap in the chaos namespace: what the workflow must not
// forget and what is too large for its history. There is one with the spec as
// it was when the disruption began, and one for each shard of targets.
const (
	labelRecord    = "chaos.squall.dev/record"
	recordSpec     = "spec"
	recordTargets  = "targets"
	keyDisruption  = "disruption"
	keyTargets     = "targets"
	keyRun         = "run"
	shardSize      = 200
	annotationKind = "chaos.squall.dev/kinds"
)

// specCache keeps some specs; the zero value is ready.
type specCache struct {
	once sync.Once
	lru  *lru.Cache
}

func (c *specCache) Get(uid types.UID) (any, bool) { return c.cache().Get(uid) }

func (c *specCache) Add(uid types.UID, d *v1beta1.Disruption) { c.cache().Add(uid, d) }

func (c *specCache) cache() *lru.Cache {
	c.once.Do(func() { c.lru = lru.New(1000) })
	return c.lru
}

// Target is one chosen pod or node.
type Target struct {
	v1beta1.InjectionTarget `json:",inline"`
	// Ended says why the target is no longer disrupted. It stays in the
	// record so that it is not chosen again (rule 18). Empty while it is.
	Ended string `json:"ended,omitempty"`
	// EndedBy is the activity that found it released. A worker may die before
	// the workflow hears of it; the next try of the activity tells it again.
	EndedBy string `json:"endedBy,omitempty"`
}

// freeze stores the disruption as it is now under its UID. When that was done
// before, the stored one counts and firstRun is the run that did it.
func (a *Activities) freeze(ctx context.Context, d *v1beta1.Disruption, run string) (firstRun string, err error) {
	frozen := v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{
		Namespace: d.Namespace, Name: d.Name, UID: d.UID, Generation: d.Generation, CreationTimestamp: d.CreationTimestamp,
	}, Spec: d.Spec}
	document, err := json.Marshal(frozen)
	if err != nil {
		return "", err
	}
	record := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: contract.RecordName(d.UID), Labels: chaospod.OwnerLabels(d.Ref())},
		Data:       map[string]string{keyDisruption: string(document), keyRun: run},
	}
	record.Labels[labelRecord] = recordSpec
	_, err = a.Kube.CoreV1().ConfigMaps(a.Namespace).Create(ctx, record, metav1.CreateOptions{})
	if err == nil {
		a.specs.Add(d.UID, &frozen)
	}
	if !apierrors.IsAlreadyExists(err) {
		return run, err
	}
	kept, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Get(ctx, record.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	return kept.Data[keyRun], nil
}

// frozen returns the disruption as it was when it began, whatever its spec
// says now (rule 8). Nobody may change it: it is kept, as it stays the same.
func (a *Activities) frozen(ctx context.Context, ref Ref) (*v1beta1.Disruption, error) {
	if known, found := a.specs.Get(ref.UID); found {
		return known.(*v1beta1.Disruption), nil
	}
	record, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Get(ctx, contract.RecordName(ref.UID), metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the record of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	d := &v1beta1.Disruption{}
	if err := json.Unmarshal([]byte(record.Data[keyDisruption]), d); err != nil {
		return nil, fmt.Errorf("decode record %s: %w", record.Name, err)
	}
	a.specs.Add(ref.UID, d)
	return d, nil
}

// shard is one record of targets.
type shard struct {
	number  int
	targets []Target
	object  *corev1.ConfigMap
	// broken says why the record cannot be read; nil when it can.
	broken error
}

// shards returns the disruption's shards in order.
func (a *Activities) shards(ctx context.Context, ref Ref) ([]shard, error) {
	found, err := a.listShards(ctx, labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID), labelRecord: recordTargets})
	if err != nil {
		return nil, fmt.Errorf("list the shards of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	for _, s := range found {
		if s.broken != nil {
			return nil, s.broken
		}
	}
	sortShards(found)
	return found, nil
}

// listShards is a live read of the records with these labels.
func (a *Activities) listShards(ctx context.Context, selector labels.Set) ([]shard, error) {
	list, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, err
	}
	found := make(map[string]shard, len(list.Items))
	for i := range list.Items {
		keep(found, &list.Items[i])
	}
	return slices.Collect(maps.Values(found)), nil
}

func sortShards(all []shard) {
	slices.SortFunc(all, func(a, b shard) int { return cmp.Compare(a.number, b.number) })
}

// shard returns one shard.
func (a *Activities) shard(ctx context.Context, s Shard) (shard, error) {
	object, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Get(ctx, shardName(s.Disruption.UID, s.Number), metav1.GetOptions{})
	if err != nil {
		return shard{}, fmt.Errorf("read shard %d of disruption %s/%s: %w", s.Number, s.Disruption.Namespace, s.Disruption.Name, err)
	}
	return readShard(object)
}

func readShard(object *corev1.ConfigMap) (shard, error) {
	number, err := strconv.Atoi(object.Labels[v1beta1.LabelShard])
	if err != nil {
		return shard{}, fmt.Errorf("record %s: label %s: %w", object.Name, v1beta1.LabelShard, err)
	}
	read := shard{number: number, object: object}
	if err := json.Unmarshal([]byte(object.Data[keyTargets]), &read.targets); err != nil {
		return shard{}, fmt.Errorf("decode record %s: %w", object.Name, err)
	}
	return read, nil
}

// newShard is the record of freshly chosen targets, not yet written.
func newShard(ref Ref, number int, kinds string, targets []Target) (*corev1.ConfigMap, error) {
	document, err := json.Marshal(targets)
	if err != nil {
		return nil, err
	}
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name: shardName(ref.UID, number), Labels: chaospod.OwnerLabels(ref),
			Annotations: map[string]string{annotationKind: kinds},
		},
		Data: map[string]string{keyTargets: string(document)},
	}
	object.Labels[labelRecord] = recordTargets
	object.Labels[v1beta1.LabelShard] = strconv.Itoa(number)
	return object, nil
}

// rewrite stores the shard's targets as they are in memory, guarded by the
// version that was read.
func (a *Activities) rewrite(ctx context.Context, s *shard) error {
	document, err := json.Marshal(s.targets)
	if err != nil {
		return err
	}
	object := s.object.DeepCopy()
	object.Data = map[string]string{keyTargets: string(document)}
	written, err := a.Kube.CoreV1().ConfigMaps(a.Namespace).Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("write shard %s: %w", s.object.Name, err)
	}
	s.object = written
	return nil
}

// forget deletes every record of the disruption. None left is no error.
func (a *Activities) forget(ctx context.Context, ref Ref) error {
	selector := labels.Set{v1beta1.LabelDisruptionUID: string(ref.UID)}
	err := a.Kube.CoreV1().ConfigMaps(a.Namespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return fmt.Errorf("delete the records of disruption %s/%s: %w", ref.Namespace, ref.Name, err)
	}
	return nil
}

func shardName(uid types.UID, number int) string {
	return fmt.Sprintf("%s-%d", contract.RecordName(uid), number)
}
