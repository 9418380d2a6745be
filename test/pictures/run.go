package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/promise"
)

// every is the time from one look to the next, if it does not take longer itself.
const every = 500 * time.Millisecond

// run measures before, while and after a disruption is injected.
func (c *cluster) run(ctx context.Context, p plan, r run) (seen recording, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	deny, err := c.allow(ctx, p.needs)
	defer func() { err = errors.Join(err, deny(context.WithoutCancel(ctx))) }()
	if err != nil {
		return seen, err
	}
	s, err := c.space(ctx)
	if err != nil {
		return seen, err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx))) }()
	if err := s.start(ctx, p, r); err != nil {
		return seen, fmt.Errorf("start what is disturbed: %w", err)
	}
	began := time.Now()
	looking, enough := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() { seen.samples = s.watch(looking, r.look, began) })
	seen.injected, seen.ended, err = s.disturb(ctx, r, began)
	enough()
	watch.Wait()
	seen.span = time.Since(began)
	missed := 0
	for _, sample := range seen.samples {
		if sample.values == nil && sample.states == nil {
			missed++
		}
	}
	if missed > len(seen.samples)/4 {
		err = errors.Join(err, fmt.Errorf("%d of %d looks saw nothing", missed, len(seen.samples)))
	}
	return seen, err
}

// watch looks again and again. A look that fails is logged, and is a gap.
func (s *space) watch(ctx context.Context, look look, began time.Time) (samples []sample) {
	for ctx.Err() == nil {
		from := time.Now()
		now, err := look(ctx, s)
		if ctx.Err() != nil {
			return samples // it was interrupted
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			now = reading{}
		}
		middle := from.Add(time.Since(from) / 2)
		samples = append(samples, sample{middle.Sub(began), now})
		s.looks.Add(1)
		_ = promise.Pause(ctx, every-time.Since(from))
	}
	return samples
}

// disturb creates a disruption, keeps it for a while and deletes it. It returns
// the times at which status became Injected and left it.
func (s *space) disturb(ctx context.Context, r run, began time.Time) (injected, ended time.Duration, err error) {
	d, err := disruption(s.name, r.spec)
	if err != nil {
		return 0, 0, err
	}
	if err := s.measured(ctx, before); err != nil {
		return 0, 0, err
	}
	if err := s.api.Create(ctx, d); err != nil {
		return 0, 0, err
	}
	isInjected := func(want bool) error {
		err := s.api.Get(ctx, client.ObjectKeyFromObject(d), d)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if (err == nil && d.Status.InjectionStatus == v1beta1.Injected) != want {
			return fmt.Errorf("phase %s, %s, %s", d.Status.Phase, d.Status.InjectionStatus, d.Status.Ending)
		}
		return nil
	}
	if err := await(ctx, func() error { return isInjected(true) }); err != nil {
		return 0, 0, err
	}
	injected = time.Since(began)
	if err := s.measured(ctx, r.during); err != nil {
		return 0, 0, err
	}
	if r.until != nil {
		if err := await(ctx, func() error { return r.until(ctx, s) }); err != nil {
			return 0, 0, err
		}
	}
	if err := s.api.Delete(ctx, d); err != nil {
		return 0, 0, err
	}
	if err := await(ctx, func() error { return isInjected(false) }); err != nil {
		return 0, 0, err
	}
	return injected, time.Since(began), s.measured(ctx, after)
}

// measured returns when a time is over in which at least three looks began and ended.
func (s *space) measured(ctx context.Context, d time.Duration) error {
	from := s.looks.Load()
	if err := promise.Pause(ctx, d); err != nil {
		return err
	}
	return await(ctx, func() error {
		if n := s.looks.Load() - from; n < 4 { // the first one had begun before
			return fmt.Errorf("%d looks were taken", n)
		}
		return nil
	})
}

// disruption is one of the target of a space.
func disruption(space, spec string) (*v1beta1.Disruption, error) {
	d := &v1beta1.Disruption{}
	err := yaml.UnmarshalStrict([]byte("metadata: {name: picture, namespace: "+space+"}\nspec:\n  selector: {app: target}\n  count: 1\n  duration: 10m\n  "+spec), d)
	return d, err
}

// space is the namespace of a run.
type space struct {
	*cluster
	name           string
	target, client corev1.Pod
	seen           map[types.UID]string
	looks          atomic.Int32 // that were taken
}

func (c *cluster) space(ctx context.Context) (*space, error) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "picture-"}}
	err := c.api.Create(ctx, namespace)
	return &space{cluster: c, name: namespace.Name, seen: map[types.UID]string{}}, err
}

// remove ends what is left of the run.
func (s *space) remove(ctx context.Context) error {
	if err := s.api.DeleteAllOf(ctx, &v1beta1.Disruption{}, client.InNamespace(s.name)); err != nil {
		return err
	}
	err := await(ctx, func() error {
		var left v1beta1.DisruptionList
		if err := s.api.List(ctx, &left, client.InNamespace(s.name)); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("disruption %s is still there, phase %s", left.Items[0].Name, left.Items[0].Status.Phase)
	})
	return errors.Join(err, client.IgnoreNotFound(s.api.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}})))
}
