// Package crons carries out single runs of DisruptionCrons: it creates the
// Disruption of a run, at most one at a time for each cron, and writes into the
// cron's status what became of it. When a run is due is Temporal's to know, and
// what is disrupted the Disruption's own workflow decides.
package crons

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
)

const (
	crons       = "disruptioncrons"
	disruptions = "disruptions"
)

// Orchestrator is what a run needs of Temporal.
type Orchestrator interface {
	GetWorkflow(ctx context.Context, id, runID string) client.WorkflowRun
	ScheduleClient() client.ScheduleClient
}

// Stops knows whether an EmergencyStop is in force.
type Stops interface {
	EmergencyStop(ctx context.Context) (string, error)
}

// Activities carries what the activities of a run need. Its methods are registered
// with a Temporal worker under their own names.
type Activities struct {
	Kube kubernetes.Interface
	// Client reads and writes the resources of Squall.
	Client rest.Interface
	Stops  Stops
	// Temporal has the schedules of crons, and the results of runs.
	Temporal Orchestrator
	// Gap is the time between two looks at a run that goes on. 0 means 10 s.
	Gap time.Duration
}

// get reads a cron, live. Another one of its name counts as not found.
func (a *Activities) get(ctx context.Context, ref contract.CronRef) (*v1beta1.DisruptionCron, error) {
	found := &v1beta1.DisruptionCron{}
	err := a.Client.Get().Namespace(ref.Namespace).Resource(crons).Name(ref.Name).Do(ctx).Into(found)
	if err == nil && found.UID != ref.UID {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: v1beta1.GroupVersion.Group, Resource: crons}, ref.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("read DisruptionCron %s: %w", ref, err)
	}
	return found, nil
}

// child reads the disruption that has the name of the cron's runs; nil if there is
// none.
func (a *Activities) child(ctx context.Context, ref contract.CronRef) (*v1beta1.Disruption, error) {
	found := &v1beta1.Disruption{}
	name := v1beta1.CronChildPrefix + ref.Name
	err := a.Client.Get().Namespace(ref.Namespace).Resource(disruptions).Name(name).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Disruption %s/%s: %w", ref.Namespace, name, err)
	}
	return found, nil
}

// remove asks for the end of exactly this disruption. One that is gone is done.
func (a *Activities) remove(ctx context.Context, d *v1beta1.Disruption) error {
	err := a.Client.Delete().Namespace(d.Namespace).Resource(disruptions).Name(d.Name).
		Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &d.UID}}).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete Disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// updateStatus lets change edit the status of a cron, and writes it unless nothing
// changed. A cron that is gone is no error.
func (a *Activities) updateStatus(ctx context.Context, ref contract.CronRef, change func(*v1beta1.DisruptionCron)) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		c, err := a.get(ctx, ref)
		if err != nil {
			return err
		}
		before := c.Status.DeepCopy()
		change(c)
		if equality.Semantic.DeepEqual(before, &c.Status) {
			return nil
		}
		return a.Client.Put().Namespace(ref.Namespace).Resource(crons).Name(ref.Name).SubResource("status").Body(c).Do(ctx).Error()
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write status of DisruptionCron %s: %w", ref, err)
	}
	return nil
}
