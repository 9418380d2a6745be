package cluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// betweenTries is the pause before the next call to an API server that does not answer.
const betweenTries = time.Second

// Watcher receives the changes of an object.
type Watcher[T any] struct {
	// Seen is called with the object whenever it changed, and with nil when it is
	// gone. It returns true to end the watch.
	Seen func(*T) bool
	// Away is called when the API server does not answer; the watch retries until the
	// context ends. May be nil.
	Away func(error)
}

// FollowDisruption sends w the changes of exactly this disruption, until w or the context
// ends it.
func (c *Client) FollowDisruption(ctx context.Context, ref v1beta1.DisruptionRef, w Watcher[v1beta1.Disruption]) error {
	err := follow(ctx, w, func() (*v1beta1.Disruption, error) { return c.get(ctx, ref) },
		func(version string) (watch.Interface, error) {
			return c.watch(ctx, ref.Namespace, disruptions, ref.Name, version)
		})
	return c.advise(ctx, err, ref.Namespace, "")
}

// get returns nil if the disruption is gone, also when another has its name.
func (c *Client) get(ctx context.Context, ref v1beta1.DisruptionRef) (*v1beta1.Disruption, error) {
	found := &v1beta1.Disruption{}
	err := c.own.Get().Namespace(ref.Namespace).Resource(disruptions).Name(ref.Name).Do(ctx).Into(found)
	if apierrors.IsNotFound(err) || err == nil && found.UID != ref.UID {
		return nil, nil
	}
	return kinded(found), err
}

// FollowScenario sends w the changes of exactly this scenario, until w or the context ends
// it.
func (c *Client) FollowScenario(ctx context.Context, namespace, name string, uid types.UID, w Watcher[v1beta1.DisruptionScenario]) error {
	err := follow(ctx, w, func() (*v1beta1.DisruptionScenario, error) {
		found := &v1beta1.DisruptionScenario{}
		err := c.own.Get().Namespace(namespace).Resource(scenarios).Name(name).Do(ctx).Into(found)
		if apierrors.IsNotFound(err) || err == nil && found.UID != uid {
			return nil, nil
		}
		return scenarioKinded(found), err
	}, func(version string) (watch.Interface, error) {
		return c.watch(ctx, namespace, scenarios, name, version)
	})
	return c.advise(ctx, err, namespace, "")
}

// FollowEmergencyStop sends w the changes of a stop, until w or the context ends it.
func (c *Client) FollowEmergencyStop(ctx context.Context, name string, w Watcher[v1beta1.EmergencyStop]) error {
	err := follow(ctx, w, func() (*v1beta1.EmergencyStop, error) {
		found := &v1beta1.EmergencyStop{}
		err := c.own.Get().Resource(emergencyStops).Name(name).Do(ctx).Into(found)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return found, err
	}, func(version string) (watch.Interface, error) { return c.watch(ctx, "", emergencyStops, name, version) })
	return c.advise(ctx, err, "", "")
}

// object is a pointer to a T that the API server knows.
type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
}

// follow reads, watches from the version it read, and reads again when the watch ends: the
// end of a watch is no change of the object.
func follow[T any, P object[T]](ctx context.Context, w Watcher[T], get func() (P, error), open func(version string) (watch.Interface, error)) error {
	for {
		found, err := get()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case refused(err):
			return err
		case err == nil && found == nil:
			w.Seen(nil)
			return nil
		case err == nil && w.Seen((*T)(found)):
			return nil
		case err == nil:
			var events watch.Interface
			if events, err = open(found.GetResourceVersion()); err == nil {
				ended := drain[T, P](events.ResultChan(), found, w)
				events.Stop()
				if ended {
					return nil
				}
			}
		}
		if err != nil && w.Away != nil && ctx.Err() == nil {
			w.Away(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause(err)):
		}
	}
}

// pause prevents a storm of reads if each watch ends at once.
func pause(err error) time.Duration {
	if err == nil {
		return betweenTries / 10
	}
	return betweenTries
}

// drain sends w the changes of a watch; true when the object is gone or w ends the watch.
func drain[T any, P object[T]](events <-chan watch.Event, first P, w Watcher[T]) (ended bool) {
	for event := range events {
		seen, known := event.Object.(P)
		switch {
		case !known || event.Type == watch.Error:
			return false
		case event.Type == watch.Deleted || seen.GetUID() != first.GetUID():
			w.Seen(nil)
			return true
		case event.Type == watch.Bookmark:
		case w.Seen((*T)(seen)):
			return true
		}
	}
	return false
}

// refused is true for an answer that a retry does not change.
func refused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}
