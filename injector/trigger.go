//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// terminal is an injector whose effect ends this node, and itself with it. It is
// injected, and told so, before that: afterwards nobody could tell. What it does
// is done once: a journal of an earlier boot with a change in it says that it was.
type terminal interface {
	// Trigger ends the node. It may or may not return.
	Trigger() error
}

const (
	// tellPatience is how long a kubelet has to ask whether all is injected, before
	// the node ends nonetheless.
	tellPatience = 30 * time.Second
	// tellMargin is how long it then has to tell the API server.
	tellMargin = 3 * time.Second
	// asks are the startup probe, and the readiness probe that follows it at once:
	// only then is the chaos pod ready.
	asks = 2
)

// askedFile grows by a byte each time that a probe has seen the ready file.
func (c Config) askedFile() string { return c.ReadyFile + "_asked" }

// noteAsked lets it grow, up to as much as anybody wants to know.
func noteAsked(config Config) error {
	file, err := os.OpenFile(config.askedFile(), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || info.Size() >= asks {
		return err
	}
	_, err = file.Write([]byte{'.'})
	return err
}

// asked tells whether probes have seen the ready file often enough.
func asked(config Config) bool {
	info, err := os.Stat(config.askedFile())
	return err == nil && info.Size() >= asks
}

// trigger ends the node if that is what the kind does, once it was told that it
// will. Who asks for the end before that, or a deadline, has it spared.
func (l *lifecycle) trigger(ctx context.Context) error {
	kind, ok := l.session.injector.(terminal)
	if !ok || l.injection.DryRun {
		return nil
	}
	if !l.awaitTold(ctx) {
		l.log.Info("asked to end before the node was ended")
		return nil
	}
	l.log.Info("ending the node")
	if err := kind.Trigger(); err != nil {
		_ = removeStale(l.config.ReadyFile) // who asks for it reads the reason
		return fmt.Errorf("the node was not ended: %w", err)
	}
	return nil
}

// awaitTold waits until it is known that all is injected, or can be waited for no
// longer: for at most half of the time that is left. It returns false when ctx is
// done before.
func (l *lifecycle) awaitTold(ctx context.Context) bool {
	over := time.Now().Add(min(tellPatience, time.Until(l.injection.Deadline.Time)/2))
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !asked(l.config) && time.Now().Before(over) {
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
	return sleep(ctx, max(min(tellMargin, time.Until(over)), 0))
}

// happened tells whether the effect of this very injection was had before the node
// started again. Then it is not had again: the injection is kept as one that is
// done, until its journal is removed in the end.
func (l *lifecycle) happened() (bool, error) {
	if !isTerminal(l.kinds[l.injection.Kind]) {
		return false, nil
	}
	earlier, err := recoverSession(l.config, l.kinds, l.injection)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	changes := earlier.journal.Changes()
	if earlier.injector != nil || len(changes) == 0 {
		earlier.journal.Close()
		return false, nil
	}
	l.session = earlier
	last := changes[len(changes)-1]
	l.see(v1beta1.EffectProven, fmt.Sprintf("%s was %s (%s)", last.Object, last.After, last.Before))
	l.log.Info("it was done before and is not done again", zap.String("object", last.Object), zap.String("before", last.Before), zap.String("after", last.After))
	return true, nil
}

func isTerminal(kind entry) bool {
	made, err := kind.construct(nil, &target.Target{}, nil)
	if err != nil {
		return false
	}
	_, ok := made.(terminal)
	return ok
}
