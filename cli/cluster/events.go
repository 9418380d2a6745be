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

// FollowEvents sends a line for each event of exactly this object, until ctx ends. It skips
// events that the user may not read, because a disruption does not depend on them.
func (c *Client) FollowEvents(ctx context.Context, namespace string, uid types.UID, lines chan<- string) {
	sent := map[types.UID]bool{}
	report := func(event *corev1.Event) {
		if sent[event.UID] {
			return
		}
		sent[event.UID] = true
		select {
		case lines <- event.Reason + ": " + event.Message:
		case <-ctx.Done():
		}
	}
	for ctx.Err() == nil {
		if err := c.events(ctx, namespace, uid, report); apierrors.IsForbidden(err) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(betweenTries):
		}
	}
}

// events calls report for the events there are and then for new ones, until the watch ends.
func (c *Client) events(ctx context.Context, namespace string, uid types.UID, report func(*corev1.Event)) error {
	events := c.Kube.CoreV1().Events(namespace)
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(uid)).String()}
	list, err := events.List(ctx, options)
	if err != nil {
		return err
	}
	for i := range list.Items {
		report(&list.Items[i])
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
		report(event)
	}
	return nil
}
