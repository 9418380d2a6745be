package run

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
)

// replace deletes the disruption with the name of d and waits until it is gone. It
// refuses to replace a disruption that has not ended, and deletes nothing if the API server
// refuses d: whether the name is taken is its last check.
func (c call) replace(ctx context.Context, client *cluster.Client, d *v1beta1.Disruption) error {
	switch _, err := client.Create(ctx, d, true); {
	case err == nil:
		return nil
	case !apierrors.IsAlreadyExists(err):
		return cluster.CreateError(err, d)
	}
	before, err := client.Disruption(ctx, d.Namespace, d.Name)
	switch {
	case cluster.Gone(err):
		return nil
	case err != nil:
		return err
	case view.Stuck(before):
		return fmt.Errorf("disruption %s/%s is stuck and cannot be replaced: squall -n %[1]s status %[2]s shows what to do", d.Namespace, d.Name)
	case !before.Status.Phase.Over():
		return fmt.Errorf("disruption %s/%s has not ended and is not replaced: end it by squall -n %[1]s stop %[2]s, then run the file again", d.Namespace, d.Name)
	}
	if err := client.Delete(ctx, before.Ref()); err != nil && !cluster.Gone(err) {
		return err
	}
	return c.awaitReplaced(ctx, "disruption "+d.Namespace+"/"+d.Name, func() (bool, error) {
		now, err := client.Disruption(ctx, d.Namespace, d.Name)
		if cluster.Gone(err) {
			return true, nil
		}
		return err == nil && now.UID != before.UID, err
	})
}

// replaceScenario is replace of a scenario. Its disruptions have the names of those to
// come, so they must be gone as well.
func (c call) replaceScenario(ctx context.Context, client *cluster.Client, s *v1beta1.DisruptionScenario) error {
	switch err := client.TryScenario(ctx, s); {
	case err == nil:
		return nil
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("create scenario %s/%s: %w", s.Namespace, s.Name, err)
	}
	before, err := client.Scenario(ctx, s.Namespace, s.Name)
	switch {
	case cluster.Gone(err):
		return nil
	case err != nil:
		return err
	case !before.Status.Phase.Over():
		return fmt.Errorf("scenario %s/%s has not ended and is not replaced: end it by squall -n %[1]s stop %[3]s%[2]s, then run the file again", s.Namespace, s.Name, console.ScenarioPrefix)
	}
	if err := client.DeleteScenario(ctx, before); err != nil && !cluster.Gone(err) {
		return err
	}
	return c.awaitReplaced(ctx, "scenario "+s.Namespace+"/"+s.Name, func() (bool, error) {
		now, err := client.Scenario(ctx, s.Namespace, s.Name)
		if !cluster.Gone(err) && (err != nil || now.UID == before.UID) {
			return false, err
		}
		list, err := client.Disruptions(ctx, s.Namespace)
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if before.Owns(&list.Items[i]) {
				return false, nil
			}
		}
		return true, nil
	})
}

// awaitReplaced waits until gone is true. what is being deleted.
func (c call) awaitReplaced(ctx context.Context, what string, gone func() (bool, error)) error {
	p := c.Progress()
	defer p.Clear()
	for {
		done, err := gone()
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("the ended %s is being deleted and not gone yet, so the new one is not created: run the file again", what)
		case err != nil || done:
			return err
		}
		p.Show(what+" has ended and is being deleted", what+" has ended and is being deleted")
		select {
		case <-ctx.Done():
		case <-time.After(console.Refresh):
		}
	}
}
