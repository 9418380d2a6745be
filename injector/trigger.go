//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// askPatience is how long a kubelet has to see that all is injected. After that the node
	// ends.
	askPatience = 30 * time.Second
	// reportMargin is how long the kubelet then has to report it to the API server.
	reportMargin = 3 * time.Second
	// asks counts the startup probe and the readiness probe that follows at once. Only after
	// both is the chaos pod ready.
	asks = 2
)

// askedFile grows by a byte each time a probe has seen the ready file.
func (c Config) askedFile() string { return c.ReadyFile + "_asked" }

// noteAsked adds a byte to askedFile, up to asks bytes.
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

// asked is true once probes have seen the ready file often enough.
func asked(config Config) bool {
	info, err := os.Stat(config.askedFile())
	return err == nil && info.Size() >= asks
}

// trigger ends the node if the kind does that, after the kubelet could report the
// injection. A request to end before that, or the deadline, spares the node.
func (l *lifecycle) trigger(ctx context.Context) error {
	trigger := l.session.fault.trigger
	if trigger == nil || l.injection.DryRun {
		return nil
	}
	if !l.awaitAsked(ctx) {
		l.log.Info("asked to end before the node was ended")
		return nil
	}
	l.log.Info("ending the node")
	if err := trigger(); err != nil {
		_ = removeStale(l.config.ReadyFile) // a probe reads the reason
		return fmt.Errorf("the node was not ended: %w", err)
	}
	return nil
}

// awaitAsked waits until probes have seen the injection, for at most half of the time left.
// It returns false when ctx is done before.
func (l *lifecycle) awaitAsked(ctx context.Context) bool {
	over := time.Now().Add(min(askPatience, time.Until(l.injection.Deadline.Time)/2))
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for !asked(l.config) && time.Now().Before(over) {
		select {
		case <-ctx.Done():
			return false
		case <-look.C:
		}
	}
	return sleep(ctx, max(min(reportMargin, time.Until(over)), 0))
}

// happened is true if the effect of this very injection happened before the node booted
// again. The injector then holds the injection without repeating it, until the end removes
// its journal.
func (l *lifecycle) happened() (bool, error) {
	if !l.kinds[l.injection.Kind].ends {
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
	if earlier.fault.injector != nil || len(changes) == 0 {
		earlier.journal.Close()
		return false, nil
	}
	l.session = earlier
	last := changes[len(changes)-1]
	l.see(v1beta1.EffectProven, fmt.Sprintf("%s was %s (%s)", last.Object, last.After, last.Before))
	l.log.Info("it was done before and is not done again", zap.String("object", last.Object), zap.String("before", last.Before), zap.String("after", last.After))
	return true, nil
}
