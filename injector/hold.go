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

// outlaster is an injector whose effect may outlast the containers it was made
// for. A kind without it is injected again when a container restarts.
type outlaster interface {
	// Outlasts tells whether all that was injected acts on the renewed target.
	Outlasts(renewed *target.Target) bool
}

// stander is an injector of whose objects some come and go while it is in force.
// Of a kind without it all that Left lists stands.
type stander interface {
	// Standing lists what is on the node as long as the injection is in force.
	Standing(context.Context) ([]string, error)
}

// follower is an injector that acts on what names led to when it injected: paths,
// links, mounts, devices, resolver files. Later they may lead elsewhere.
type follower interface {
	// Moved says what an injection would act on now and this one does not; empty if
	// there is nothing. It changes nothing, and takes no longer than a look at files.
	Moved(context.Context) (string, error)
}

// firstLook is how soon after an injection its effect is measured, at the latest.
const firstLook = time.Second

// hold keeps the injection in force until ctx is done: it takes it off and puts
// it on again as the pulse says, injects again what restarted or was lost, and
// returns why nothing is in force any more, nil if ctx ended it.
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

// await waits until something is to be done, and says what.
func (l *lifecycle) await(ctx context.Context) (func(context.Context) error, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := watchContainers(watch, l.current)
	if err != nil {
		return nil, err
	}
	var gone <-chan error
	if kind, ok := l.session.injector.(holder); ok {
		gone = kind.Lost()
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
			return nil, loss // the kind itself saw it end
		case name := <-ended:
			l.log.Info("container ended", zap.String("container", name))
			return l.renew, nil
		case <-back:
			l.log.Info("a container that was away runs again")
			return l.renew, nil
		case <-soon:
			l.prove(ctx)
		case <-look.C:
			if lost := l.lost(ctx); len(lost) > 0 {
				l.log.Warn("lost, injecting again", zap.Strings("objects", lost))
				l.lose(missing(lost))
				return l.restore, nil
			}
			if moved := l.moved(ctx); moved != "" {
				l.log.Warn("moved, injecting again", zap.String("where", moved))
				return l.restore, nil
			}
			l.prove(ctx)
		}
	}
}

// watchContainers tells the name of each container of the target that ends, as
// soon as it does, until ctx is done.
func watchContainers(ctx context.Context, t *target.Target) (<-chan string, error) {
	ended := make(chan string, len(t.Containers))
	for _, container := range t.Containers {
		if container.Name == v1beta1.OnInitContainer && len(t.Injection.OnInit) > 0 {
			continue // it ends when the pod is let go, and the pod stays
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

// awaitReturn tells once that a container runs in the place of one that was away; nil
// if none is away.
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

// pause takes the injection off for as long as the pulse says.
func (l *lifecycle) pause(ctx context.Context) error {
	l.beat = nil
	if err := l.takeOff(ctx); err != nil {
		return err
	}
	sleep(ctx, l.injection.Pulse.DormantDuration.Duration)
	return l.renew(ctx)
}

// restore injects anew what was lost in part.
func (l *lifecycle) restore(ctx context.Context) error {
	if err := l.takeOff(ctx); err != nil {
		return err
	}
	return l.renew(ctx)
}

// renewTries is how often in a row it may fail to inject again.
const renewTries = 3

// renew waits until all containers of the target run, and injects into those
// that were started meanwhile. A container that stays away keeps no other from being
// injected: it may have finished for good. It is told of, and so is a try that failed:
// nothing is injected then.
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
			if l.outlasts(renewed) {
				return l.tellReady()
			}
			if err := l.takeOff(ctx); err != nil {
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
			l.tellAway(err)
		}
		starts.await(ctx, min(max(time.Since(began)/20, renewEvery), renewAtMax))
	}
	return ctx.Err()
}

func (l *lifecycle) outlasts(renewed *target.Target) bool {
	kind, ok := l.session.injector.(outlaster)
	return ok && !l.session.over && kind.Outlasts(renewed)
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

// takeOff cleans the injection that is in force and gives its journal back.
func (l *lifecycle) takeOff(ctx context.Context) error {
	if l.session.over {
		return nil
	}
	// What was begun is finished: the end of the disruption cannot cut it short.
	if err := l.session.cleanWithRetries(context.WithoutCancel(ctx), l.config, l.log); err != nil {
		return fmt.Errorf("pause the injection: %w", err)
	}
	return nil
}

// lost lists what was there after the injection and is not there any more.
func (l *lifecycle) lost(ctx context.Context) []string {
	if len(l.held) == 0 {
		return nil
	}
	there, err := l.standing(ctx)
	if err != nil {
		l.log.Warn("cannot check whether the injection is in force", zap.String("reason", err.Error()))
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.held), func(object string) bool { return slices.Contains(there, object) })
}

// moved says what is to be disrupted now and is not. A plan that fails now is an injection
// that acts no longer on what was asked for.
func (l *lifecycle) moved(ctx context.Context) (where string) {
	kind, ok := l.session.injector.(follower)
	if !ok {
		return ""
	}
	err := bounded(ctx, proveTimeout, func(ctx context.Context) (err error) {
		where, err = kind.Moved(ctx)
		return err
	})
	switch {
	case err == nil:
		return where
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, target.ErrGone), ctx.Err() != nil:
		return "" // a container that has ended is noticed elsewhere
	}
	return err.Error()
}

func (l *lifecycle) standing(ctx context.Context) ([]string, error) {
	if kind, ok := l.session.injector.(stander); ok {
		return kind.Standing(ctx)
	}
	return l.session.injector.Left(ctx)
}

// tellReady makes the chaos pod ready.
func (l *lifecycle) tellReady() error {
	if err := os.WriteFile(l.config.ReadyFile, nil, 0o644); err != nil {
		return fmt.Errorf("report that the injection is done: %w", err)
	}
	return nil
}

// tellAway says why nothing is injected for a while. What goes wrong with that
// changes nothing.
func (l *lifecycle) tellAway(why error) {
	if !exists(l.config.ReadyFile) {
		return // it was told
	}
	l.log.Warn("not injected", zap.String("reason", why.Error()))
	l.lose(why.Error())
	if err := errors.Join(writeReason(l.config.ReasonFile, why.Error()), removeStale(l.config.ReadyFile)); err != nil {
		l.log.Warn("the readiness probe cannot report the reason", zap.String("reason", err.Error()))
	}
}
