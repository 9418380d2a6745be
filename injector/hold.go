//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// firstLook is how soon after an injection its effect is measured, at the latest.
const firstLook = time.Second

// hold keeps the injection in force until ctx is done. It pauses as the pulse demands and
// injects again into what restarted, moved or was lost. It returns why nothing is in force,
// nil if ctx ended it.
func (l *lifecycle) hold(ctx context.Context) error {
	if l.injection.DryRun {
		<-ctx.Done()
		return nil
	}
	if l.kinds[l.injection.Kind].once {
		return l.repeat(ctx)
	}
	for ctx.Err() == nil {
		again, err := l.await(ctx)
		if err == nil {
			err = again(ctx)
		}
		if err != nil && (ctx.Err() == nil || errors.Is(err, errHangs)) {
			return err
		}
	}
	return nil
}

// await waits until something must be done, and returns the function that does it.
func (l *lifecycle) await(ctx context.Context) (func(context.Context) error, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := watchContainers(watch, l.current)
	if err != nil {
		return nil, err
	}
	var gone <-chan error
	if l.session.fault.effectLost != nil {
		gone = l.session.fault.effectLost()
	}
	look := time.NewTicker(l.config.LookEvery)
	defer look.Stop()
	soon := time.After(min(l.config.LookEvery, firstLook))
	back := awaitReturn(watch, l.current)
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.beat:
			return l.pause, nil
		case loss := <-gone:
			return nil, loss // the kind itself saw its effect end
		case name := <-ended:
			l.log.Info("container ended", zap.String("container", name))
			return l.renew, nil
		case <-back:
			l.log.Info("a container that was away runs again")
			return l.renew, nil
		case <-soon:
			l.prove(ctx)
		case <-look.C:
			if lost := l.missingObjects(ctx); len(lost) > 0 {
				l.log.Warn("lost, injecting again", zap.Strings("objects", lost))
				l.recordLoss(missing(lost))
				return l.restore, nil
			}
			if moved := l.session.moved(ctx); moved != "" {
				l.log.Warn("moved, injecting again", zap.String("where", moved))
				return l.restore, nil
			}
			l.prove(ctx)
		}
	}
}

// watchContainers sends the name of each container of the target that ends, until ctx is
// done.
func watchContainers(ctx context.Context, t *target.Target) (<-chan string, error) {
	ended := make(chan string, len(t.Containers))
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer && len(t.Injection.OnInit) > 0 {
			continue // it ends when the pod is released, and the pod stays
		}
		first, err := container.Pidfd()
		if errors.Is(err, target.ErrGone) {
			ended <- container.Name
			continue
		}
		if err != nil {
			return nil, err
		}
		go func() {
			defer first.Close()
			if target.AwaitEnd(ctx, first) == nil {
				ended <- container.Name
			}
		}()
	}
	return ended, nil
}

// awaitReturn sends once when a container runs in place of one that was away. It returns
// nil if none is away.
func awaitReturn(ctx context.Context, t *target.Target) <-chan struct{} {
	if len(t.Away) == 0 {
		return nil
	}
	back := make(chan struct{}, 1)
	go func() {
		for starts := startsOf(t); ctx.Err() == nil; starts.await(ctx, renewAtMax) {
			if t.CameBack() {
				back <- struct{}{}
				return
			}
		}
	}()
	return back
}

// pause cleans the injection for the pulse's time of rest.
func (l *lifecycle) pause(ctx context.Context) error {
	l.beat = nil
	if err := l.cleanCurrent(ctx); err != nil {
		return err
	}
	sleep(ctx, l.injection.Pulse.DormantDuration.Duration)
	return l.renew(ctx)
}

// restore injects again after a part was lost.
func (l *lifecycle) restore(ctx context.Context) error {
	if err := l.cleanCurrent(ctx); err != nil {
		return err
	}
	return l.renew(ctx)
}

// renewTries is how many injections in a row may fail before renew returns the error.
const renewTries = 3

// renew waits until all containers of the target run, and injects into those started
// meanwhile. A container that stays away may have finished for good, so the others are
// injected without it. The injector reports it, and each failed attempt: nothing is
// injected then.
func (l *lifecycle) renew(ctx context.Context) error {
	began, starts, failed := time.Now(), startsOf(l.current), 0
	for ctx.Err() == nil {
		renewed, err := l.current.Renewed()
		if errors.Is(err, target.ErrGone) && time.Since(began) > renewSlack {
			l.log.Warn("a container stays away", zap.String("reason", err.Error()))
			renewed, err = l.current.RenewedPartly()
		}
		if err == nil {
			l.current = renewed
			if l.session.outlasts(renewed) {
				return l.writeReady()
			}
			if err := l.cleanCurrent(ctx); err != nil {
				return err
			}
			if err = l.injectAgain(ctx); err == nil {
				return nil
			}
		}
		gone := errors.Is(err, target.ErrGone)
		if !gone {
			failed++
		}
		if failed == renewTries || errors.Is(err, errHangs) {
			return err
		}
		if !gone || time.Since(began) > renewSlack {
			l.reportAway(err)
		}
		starts.await(ctx, min(max(time.Since(began)/20, renewEvery), renewAtMax))
	}
	return ctx.Err()
}

func (s *session) outlasts(renewed *target.Target) bool {
	outlasts := s.fault.outlasts
	return outlasts != nil && !s.over && outlasts(renewed)
}

// injectAgain injects into the containers that run now.
func (l *lifecycle) injectAgain(ctx context.Context) error {
	l.injection = l.current.Injection
	made, err := prepareOn(l.config, l.kinds[l.injection.Kind], l.current)
	if err != nil {
		return err
	}
	l.session = made
	if err := l.inject(ctx); err != nil {
		return err
	}
	l.log.Info("injected again", zap.Any("containers", l.injection.Target.Containers))
	return nil
}

// cleanCurrent cleans the injection in force and removes its journal.
func (l *lifecycle) cleanCurrent(ctx context.Context) error {
	if l.session.over {
		return nil
	}
	// A cleaning that has begun is finished: the end of the disruption does not interrupt it.
	if err := l.session.cleanWithRetries(context.WithoutCancel(ctx), l.config, l.log); err != nil {
		return fmt.Errorf("pause the injection: %w", err)
	}
	return nil
}

// missingObjects lists the objects that existed after the injection and are missing now.
func (l *lifecycle) missingObjects(ctx context.Context) []string {
	if len(l.held) == 0 {
		return nil
	}
	there, err := l.session.standing(ctx)
	if err != nil {
		l.log.Warn("cannot check whether the injection is in force", zap.String("reason", err.Error()))
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.held), func(object string) bool { return slices.Contains(there, object) })
}

// moved describes what should be disrupted now and is not. An error counts as moved: the
// injection no longer acts on what its plan names.
func (s *session) moved(ctx context.Context) (where string) {
	moved := s.fault.moved
	if moved == nil {
		return ""
	}
	err := bounded(ctx, proveTimeout, func(ctx context.Context) (err error) {
		where, err = moved(ctx)
		return err
	})
	switch {
	case err == nil:
		return where
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, target.ErrGone), ctx.Err() != nil:
		return "" // await notices a container that has ended
	}
	return err.Error()
}

func (s *session) standing(ctx context.Context) ([]string, error) {
	if s.fault.standing != nil {
		return s.fault.standing(ctx)
	}
	return s.fault.Left(ctx)
}

// writeReady makes the chaos pod ready.
func (l *lifecycle) writeReady() error {
	if err := os.WriteFile(l.config.ReadyFile, nil, 0o644); err != nil {
		return fmt.Errorf("report that the injection is done: %w", err)
	}
	return nil
}

// reportAway reports why nothing is injected for a while. An error of the report has no
// effect.
func (l *lifecycle) reportAway(why error) {
	if !exists(l.config.ReadyFile) {
		return // the reason was reported before
	}
	l.log.Warn("not injected", zap.String("reason", why.Error()))
	l.recordLoss(why.Error())
	if err := errors.Join(writeReason(l.config.ReasonFile, why.Error()), removeStale(l.config.ReadyFile)); err != nil {
		l.log.Warn("the readiness probe cannot report the reason", zap.String("reason", err.Error()))
	}
}
