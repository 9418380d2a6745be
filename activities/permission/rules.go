// Package permission finds the rules that allow or deny a Disruption: policies, safe mode and
// the opt-in of namespaces. It promises that a rule which is gone denies nothing for good.
package permission

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/cluster"
	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Rules finds the rules that apply to disruptions.
type Rules struct {
	*cluster.Cluster
	// Policies is this worker's only watch on DisruptionPolicies. nil means no policies.
	Policies *policy.Watch
	// OptIn is true if disruptions need the opt-in label on their namespace. Each check of
	// policies then reads the namespace live.
	OptIn bool
	// SafeMode catches disruptions of more targets than their author may have meant. nil is
	// off.
	SafeMode *SafeMode
}

// Source is where the policies of a judgement come from.
type Source bool

const (
	// WatchedPolicies cost no call. The watch may be behind that of the controller, which
	// signals a change once.
	WatchedPolicies Source = false
	// NewestPolicies cost a call. They confirm a denial: by a rule that the watch has and
	// that is gone, a disruption would wait until the next check, hours later.
	NewestPolicies Source = true
)

// ofPolicies are the rules of policies that concern the disruption.
func (r *Rules) ofPolicies(ctx context.Context, d *v1beta1.Disruption, from Source) ([]policy.Rule, error) {
	if r.Policies == nil {
		return nil, nil
	}
	all := r.Policies.Policies()
	if from == NewestPolicies {
		var err error
		if all, err = r.Policies.Live(ctx); err != nil {
			return nil, err
		}
	}
	return policy.Rules(all, d, time.Now()), nil
}

// Of are the rules that apply to the disruption: those of policies, of safe mode where
// it is enforced, and of a namespace without the opt-in label where it is required.
func (r *Rules) Of(ctx context.Context, d *v1beta1.Disruption, from Source) ([]policy.Rule, error) {
	rules, err := r.ofPolicies(ctx, d, from)
	if err != nil {
		return nil, err
	}
	rules = append(r.SafeMode.Rules(d), rules...)
	if !r.OptIn {
		return rules, nil
	}
	namespace, err := r.Kube.CoreV1().Namespaces().Get(ctx, d.Namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read whether namespace %s agrees to disruptions: %w", d.Namespace, err)
	}
	if err != nil || namespace.Labels[v1beta1.LabelDisruptions] != v1beta1.DisruptionsAllowed {
		rules = append([]policy.Rule{policy.NotOptedIn(d.Namespace)}, rules...)
	}
	return rules, nil
}
