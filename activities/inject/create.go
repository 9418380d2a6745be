// Package inject injects into chosen targets and watches the injection: the activities
// CreateChaosPods, AwaitInjection, AwaitEffects and FollowServices. It promises that nothing
// is injected once a stop is known, and that another attempt injects into no target twice.
package inject

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// Activities has the activities of an injection.
type Activities struct{ *cluster.Cluster }

// CreateInput selects the targets that get chaos pods.
type CreateInput struct {
	chaospod.Shard
	// Version of the shard's record, if the workflow knows it. The activity reads the
	// record from the watch if the watch holds this version.
	Version string `json:"version,omitempty"`
	// Run is the number of the choice of targets. Targets of earlier choices have their
	// chaos pods, or had them.
	Run int `json:"run,omitempty"`
	// Operated restricts chaos pods to targets that the driver has granted, or that no
	// driver manages.
	Operated bool `json:"operated,omitempty"`
}

// CreateResult counts the chaos pods that CreateChaosPods created.
type CreateResult struct {
	Pods int `json:"pods"`
	// Refused counts the chaos pods that the API server refuses for good, Why is the first
	// reason.
	Refused int    `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Stopped is why nothing may be injected any more. Pods still counts the chaos pods
	// that were created before the stop was known.
	Stopped string `json:"stopped,omitempty"`
}

// CreateChaosPods creates one chaos pod for each target of the shard and each fault type
// (rule 22), unless the disruption was stopped. Another call creates the missing ones. It
// counts a permanent refusal of the API server and records an event. A temporary refusal is
// an error, so that Temporal retries.
func (a *Activities) CreateChaosPods(ctx context.Context, s CreateInput) (CreateResult, error) {
	d, err := a.Targets.LoadSpec(ctx, s.Disruption)
	if err != nil {
		return CreateResult{}, err
	}
	record, err := a.Targets.ShardAt(ctx, s.Disruption, s.Number, s.Version)
	if err != nil {
		return CreateResult{}, err
	}
	hosts, err := a.resolvedHosts(ctx, d)
	if err != nil {
		return CreateResult{}, err
	}
	wanted := chosenSince(record.Targets, s.Run)
	if s.Operated {
		if wanted, err = a.given(ctx, d, wanted); err != nil {
			return CreateResult{}, err
		}
	}
	all, err := a.chaosPods(d, s.Shard, wanted, hosts)
	if err != nil {
		return CreateResult{}, err
	}
	for _, pod := range all {
		pod.OwnerReferences = []metav1.OwnerReference{record.Owner()}
	}
	pods, shared, err := a.withOwnKernel(ctx, d, all)
	if err != nil {
		return CreateResult{}, err
	}
	// This check is the last step before the creation.
	if why, err := cluster.Stopped(ctx, a.Cluster, s.Disruption); why != "" || err != nil {
		return CreateResult{Stopped: why}, err
	}
	created, err := a.createAll(ctx, s.Disruption, pods)
	if err != nil {
		return created, err
	}
	if created.Stopped != "" {
		metric.ChaosPodsCreated.Add(ctx, created.Pods, "")
		return created, nil
	}
	created.Refused += len(all) - len(pods)
	created.Why = cmp.Or(created.Why, shared)
	metric.ChaosPodsCreated.Add(ctx, created.Pods, "")
	return created, a.reportCreation(ctx, d, s, created)
}

// chosenSince are the targets of choice number run and later ones.
func chosenSince(all []targets.Target, run int) (some []targets.Target) {
	for _, target := range all {
		if target.Run >= run {
			some = append(some, target)
		}
	}
	return some
}

// chaosPods are the chaos pods for a shard's targets. hosts are the current addresses of
// services and clouds, empty if the disruption names none.
func (a *Activities) chaosPods(d *v1beta1.Disruption, s chaospod.Shard, targets []targets.Target, hosts string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	now := time.Now()
	for _, target := range targets {
		if !target.Active() {
			continue
		}
		for _, fault := range d.Spec.Requested() {
			pod, err := a.Builder.ChaosPod(d, s.Number, target.InjectionTarget, fault, now)
			if err != nil {
				return nil, err
			}
			if hosts != "" && fault.Kind == v1beta1.KindNetwork {
				pod.Annotations[v1beta1.AnnotationResolvedHosts] = hosts
			}
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// createdAtOnce is the number of chaos pods created between two checks for a stop. A slow
// worker continues until its context ends, even after Temporal has timed it out, while
// another worker cleans up and finishes.
const createdAtOnce = 50

// createAll creates pods until the disruption is stopped. The caller has just checked for a
// stop.
func (a *Activities) createAll(ctx context.Context, ref v1beta1.DisruptionRef, pods []*corev1.Pod) (CreateResult, error) {
	var all CreateResult
	for some := range slices.Chunk(pods, createdAtOnce) {
		if all.Pods+all.Refused > 0 {
			why, err := cluster.Stopped(ctx, a.Cluster, ref)
			if why != "" || err != nil {
				all.Stopped = why
				return all, err
			}
		}
		created, err := a.createSome(ctx, some)
		all.Pods, all.Refused, all.Why = all.Pods+created.Pods, all.Refused+created.Refused, cmp.Or(all.Why, created.Why)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

func (a *Activities) createSome(ctx context.Context, pods []*corev1.Pod) (CreateResult, error) {
	refusals := make([]string, len(pods))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(a.Parallel)
	for i, pod := range pods {
		group.Go(func() (err error) {
			refusals[i], err = chaospod.Create(groupCtx, a.Kube, pod)
			return err
		})
	}
	err := group.Wait()
	created := CreateResult{Pods: len(pods)}
	for _, refusal := range refusals {
		if refusal != "" {
			created.Pods--
			created.Refused++
			created.Why = cmp.Or(created.Why, refusal)
		}
	}
	return created, err
}

// reportCreation records events on the disruption, and a refusal in status.
func (a *Activities) reportCreation(ctx context.Context, d *v1beta1.Disruption, s CreateInput, c CreateResult) error {
	key := fmt.Sprint(s.Number)
	if s.Run > 0 {
		key += fmt.Sprint(" run ", s.Run)
	}
	if c.Pods > 0 {
		message := fmt.Sprintf("%s created for shard %d", chaospod.ForPeople(c.Pods), s.Number)
		cluster.Events(a.Kube).Record(ctx, d, "ChaosPodCreated", message, key)
	}
	if c.Refused > 0 {
		message := fmt.Sprintf("%s refused: %s", chaospod.ForPeople(c.Refused), c.Why)
		cluster.Events(a.Kube).Warn(ctx, d, "CreateFailed", message, key)
		return a.showRefusal(ctx, d, message)
	}
	return nil
}

// showRefusal writes the reason into the condition Injected.
func (a *Activities) showRefusal(ctx context.Context, d *v1beta1.Disruption, why string) error {
	return a.Disruptions.UpdateStatus(ctx, d.Ref(), cluster.Planned(ctx, d, func(live *v1beta1.Disruption) {
		status.SetCondition(live, v1beta1.ConditionInjected, metav1.ConditionFalse, "CreateFailed", strings.TrimSpace(why))
	}))
}

// given are the targets that may be disrupted, by a live read right before the injection
// (rule L4).
func (a *Activities) given(ctx context.Context, d *v1beta1.Disruption, all []targets.Target) ([]targets.Target, error) {
	operation := podops.OfDisruption(d.UID)
	var may []targets.Target
	for _, target := range all {
		if !target.MayBeDisrupted() {
			continue
		}
		pod, err := cluster.ReadPod(ctx, a.Cluster, d, target)
		if err != nil {
			return nil, err
		}
		if pod == nil || pod.DeletionTimestamp != nil || target.Operation == targets.OperationGiven && operation.Next(pod) != podops.StepOperate {
			continue // the next OperateTargets handles it
		}
		may = append(may, target)
	}
	return may, nil
}

// withOwnKernel leaves out the chaos pods that would end more nodes than their target's:
// their node shares its kernel with another node. why is about the first of them.
func (a *Activities) withOwnKernel(ctx context.Context, d *v1beta1.Disruption, pods []*corev1.Pod) (kept []*corev1.Pod, why string, err error) {
	if d.Spec.NodeFailure == nil {
		return pods, "", nil
	}
	kernels, err := kube.ReadKernels(ctx, a.Kube)
	if err != nil {
		return nil, "", fmt.Errorf("list nodes to see which share a kernel: %w", err)
	}
	shared := kernels.Shared()
	for _, pod := range pods {
		other, found := shared[pod.Spec.NodeName]
		switch {
		case !found:
			kept = append(kept, pod)
		case why == "":
			why = kube.SharedKernel(pod.Spec.NodeName, other)
		}
	}
	return kept, why, nil
}
