package activities

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/chaospod"
	"github.com/squall-chaos/squall/activities/metric"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/activities/targets"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// CreateResult says what CreateChaosPods did.
type CreateResult struct {
	Pods int `json:"pods"`
	// Refused counts chaos pods the API server will never take, Why the first refusal.
	Refused int    `json:"refused,omitempty"`
	Why     string `json:"why,omitempty"`
	// Stopped says why nothing may be injected any more; then no pod was created.
	Stopped string `json:"stopped,omitempty"`
}

// CreateChaosPods creates one chaos pod for each target of the shard and each
// kind (rule 22), unless the disruption was stopped. Called again it
// creates what is missing. What the API server refuses for good is counted and
// told as an event; what it cannot take now is an error, to be tried again.
func (a *Activities) CreateChaosPods(ctx context.Context, s Shard) (CreateResult, error) {
	d, err := a.Targets.LoadSpec(ctx, s.Disruption)
	if err != nil {
		return CreateResult{}, err
	}
	record, err := a.Targets.Shard(ctx, s.Disruption, s.Number)
	if err != nil {
		return CreateResult{}, err
	}
	pods, err := a.chaosPods(d, s, record.Targets)
	if err != nil {
		return CreateResult{}, err
	}
	// Checked last, right before creating.
	if why, err := a.stopped(ctx, s.Disruption); why != "" || err != nil {
		return CreateResult{Stopped: why}, err
	}
	created, err := a.createAll(ctx, pods)
	if err != nil {
		return created, err
	}
	metric.ChaosPodsCreated.Add(ctx, created.Pods, "")
	return created, a.reportCreation(ctx, d, s, created)
}

func (a *Activities) chaosPods(d *v1beta1.Disruption, s Shard, targets []targets.Target) ([]*corev1.Pod, error) {
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
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func (a *Activities) createAll(ctx context.Context, pods []*corev1.Pod) (CreateResult, error) {
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

// reportCreation records on the disruption what happened.
func (a *Activities) reportCreation(ctx context.Context, d *v1beta1.Disruption, s Shard, c CreateResult) error {
	if c.Pods > 0 {
		message := fmt.Sprintf("%s created for shard %d", chaospod.ForPeople(c.Pods), s.Number)
		a.events().Record(ctx, d, "ChaosPodCreated", message, fmt.Sprint(s.Number))
	}
	if c.Refused > 0 {
		message := fmt.Sprintf("%s refused: %s", chaospod.ForPeople(c.Refused), c.Why)
		a.events().Warn(ctx, d, "CreateFailed", message, fmt.Sprint(s.Number))
		return a.showRefusal(ctx, d, message)
	}
	return nil
}

// showRefusal puts the reason where a user looks first.
func (a *Activities) showRefusal(ctx context.Context, d *v1beta1.Disruption, why string) error {
	return a.Disruptions.UpdateStatus(ctx, d.Ref(), func(live *v1beta1.Disruption) {
		status.SetCondition(live, v1beta1.ConditionInjected, metav1.ConditionFalse, "CreateFailed", strings.TrimSpace(why))
	})
}
