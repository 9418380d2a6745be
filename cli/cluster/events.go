package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
)

// FollowEvents sends a line for each event of this very object, until ctx ends. Events are told as far as they can be read: they are no part of what a
// disruption does.
func (c *Client) FollowEvents(ctx context.Context, namespace string, uid types.UID, lines chan<- string) {
	told := map[types.UID]bool{}
	tell := func(event *corev1.Event) {
		if told[event.UID] {
			return
		}
		told[event.UID] = true
		select {
		case lines <- event.Reason + ": " + event.Message:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if err := c.events(ctx, namespace, uid, tell); apierrors.IsForbidden(err) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(betweenTries):
		}
	}
}

// events tells those there are, and then those that come, until the watch ends.
func (c *Client) events(ctx context.Context, namespace string, uid types.UID, tell func(*corev1.Event)) error {
	events := c.Kube.CoreV1().Events(namespace)
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String()}
	list, err := events.List(ctx, options)
	if err != nil {
		return err
	}
	for i := range list.Items {
		tell(&list.Items[i])
	}
	options.ResourceVersion = list.ResourceVersion
	watch, err := events.Watch(ctx, options)
	if err != nil {
		return err
	}
	defer watch.Stop()
	for seen := range watch.ResultChan() {
		event, known := seen.Object.(*corev1.Event)
		if !known {
			return errors.New("the watch on events ended: " + fmt.Sprint(seen.Type))
		}
		tell(event)
	}
	return nil
}
