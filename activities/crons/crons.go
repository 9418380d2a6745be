// Package crons carries out single runs of DisruptionCrons and DisruptionRollouts. It
// creates the Disruption of a run, at most one at a time for each object, and writes
// the result into the object's status. Temporal decides when a run of a DisruptionCron
// is due. The controller, which sees releases, decides it for a DisruptionRollout. The
// Disruption's own workflow decides what is disrupted.
package crons

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	crons       = "disruptioncrons"
	rollouts    = "disruptionrollouts"
	disruptions = "disruptions"
)

// Orchestrator is the part of a Temporal client that a run needs.
type Orchestrator interface {
	GetWorkflow(ctx context.Context, id, runID string) client.WorkflowRun
	ScheduleClient() client.ScheduleClient
}

// Stops reports whether an EmergencyStop is in force.
type Stops interface {
	EmergencyStop(ctx context.Context) (string, error)
}

// Events records events of DisruptionCrons and DisruptionRollouts. Two events with the
// same reason and key are stored once.
type Events interface {
	Of(ctx context.Context, kind string, object metav1.Object, eventType, reason, message, key string)
}

// Activities has the clients for the activities of a run. Its methods are registered
// with a Temporal worker under their own names.
type Activities struct {
	Kube kubernetes.Interface
	// Client reads and writes the resources of Squall.
	Client rest.Interface
	Stops  Stops
	Events Events
	// Temporal has the schedules of crons, and the results of runs.
	Temporal Orchestrator
	// Gap is the time between two reads of a run that has not ended. 0 means 10 s.
	Gap time.Duration
}

// child reads the Disruption that has the name of the object's runs; nil if there is
// none.
func (a *Activities) child(ctx context.Context, ref contract.CronRef) (*v1beta1.Disruption, error) {
	found := &v1beta1.Disruption{}
	name := childName(ref)
	err := a.Client.Get().Namespace(ref.Namespace).Resource(disruptions).Name(name).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Disruption %s/%s: %w", ref.Namespace, name, err)
	}
	return found, nil
}

// remove deletes exactly this disruption. A disruption that is gone is no error.
func (a *Activities) remove(ctx context.Context, d *v1beta1.Disruption) error {
	err := a.Client.Delete().Namespace(d.Namespace).Resource(disruptions).Name(d.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &d.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// updateStatus calls change to edit the status of a DisruptionCron or
// DisruptionRollout, and writes it unless nothing changed. An object that is gone is no
// error.
func (a *Activities) updateStatus(ctx context.Context, ref contract.CronRef, change func(*parent)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, err := a.get(ctx, ref)
		if err != nil {
			return err
		}
		before := c.object.DeepCopyObject()
		change(c)
		if equality.Semantic.DeepEqual(before, c.object) {
			return nil
		}
		return a.Client.Put().Namespace(ref.Namespace).Resource(c.resource).Name(ref.Name).SubResource("status").Body(c.object).Do(ctx).Error()
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of %s: %w", ref, err)
	}
	return nil
}
