//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// proveTimeout bounds one measurement.
	proveTimeout = 2 * time.Second
	// turnThreshold is how many checks in a row must see the fault act, or not act, before the
	// state changes. A target's activity differs from check to check.
	turnThreshold = 3
	// figuresEvery is the shortest time between two log lines with changed figures.
	figuresEvery = time.Minute
	// messageUnmeasured is the log line of a measurement that failed.
	messageUnmeasured = "the effect of the fault cannot be measured"
	// maxEvidence is the longest text of figures, in bytes.
	maxEvidence = 256
)

// proof is what is known of the effect of an injection.
type proof struct {
	effect v1beta1.Effect // the zero value: nothing was measured
	// doubts counts the checks in a row that saw another state.
	doubts int
}

// after returns the proof after one more check, and whether the state changed.
func (p proof) after(state v1beta1.EffectState, evidence string, now time.Time) (proof, bool) {
	evidence = text.Shorten(evidence, maxEvidence)
	known := p.effect.State
	switch {
	case state == known:
		p.effect.Evidence, p.doubts = evidence, 0
		return p, false
	case known == v1beta1.EffectProven && state == v1beta1.EffectNothingMatchedYet:
		return p, false // it was injected again, as after a pulse, and counts from the beginning
	case known == v1beta1.EffectProven && state == v1beta1.EffectIneffective, known == v1beta1.EffectIneffective && state == v1beta1.EffectProven:
		if p.doubts++; p.doubts < turnThreshold {
			return p, false
		}
	}
	return proof{effect: v1beta1.Effect{State: state, Evidence: evidence, Since: metav1.NewTime(now.Truncate(time.Second))}}, true
}

// worse is true for a state that must be reported at once. The others are read on request.
func worse(state v1beta1.EffectState) bool {
	return state == v1beta1.EffectLost || state == v1beta1.EffectIneffective
}

// prove measures the injection in force. After an error the proof stays as it is.
func (l *lifecycle) prove(ctx context.Context) {
	if l.session == nil || l.session.fault.injector == nil || l.session.over || l.injection.DryRun {
		return
	}
	var state v1beta1.EffectState
	var evidence string
	err := bounded(ctx, proveTimeout, func(ctx context.Context) (err error) {
		state, evidence, err = l.session.fault.Prove(ctx)
		return err
	})
	if err != nil {
		l.log.Warn(messageUnmeasured, zap.String("reason", err.Error()))
		return
	}
	l.see(state, evidence)
}

// see records a measurement, and reports a change of state.
func (l *lifecycle) see(state v1beta1.EffectState, evidence string) {
	next, turned := l.proof.after(state, evidence, time.Now())
	before := l.proof.effect.Evidence
	l.proof = next
	switch {
	case turned:
		l.logEffect(v1beta1.MessageEffect)
		if !worse(state) {
			return
		}
		if err := reportTurn(l.config, next.effect); err != nil {
			l.log.Warn("the readiness probe cannot report that the effect changed", zap.String("reason", err.Error()))
		}
	case before != evidence && time.Since(l.figures) >= figuresEvery:
		l.logEffect(v1beta1.MessageFigures)
	}
}

// recordLoss records that something else removed the fault.
func (l *lifecycle) recordLoss(why string) {
	if l.proof.effect.State != "" && !l.injection.DryRun {
		l.see(v1beta1.EffectLost, why)
	}
}

// logEffect logs one v1beta1.EffectLine.
func (l *lifecycle) logEffect(message string) {
	e := l.proof.effect
	l.figures = time.Now()
	l.log.Info(message, zap.String("state", string(e.State)), zap.String("evidence", e.Evidence), zap.String("since", e.Since.UTC().Format(time.RFC3339)))
}

// lastEffect returns the effect for the report, with the final figures.
func (l *lifecycle) lastEffect() *v1beta1.Effect {
	if l.proof.effect.State == "" {
		return nil
	}
	return &l.proof.effect
}

// turnFile exists from a turn for the worse until a probe has reported it.
func (c Config) turnFile() string { return c.ReadyFile + "_turned" }

// reportTurn makes only the next readiness probe fail. The chaos pod is not ready for one
// period of the probe, and every watcher of chaos pods is notified of that.
func reportTurn(config Config, effect v1beta1.Effect) error {
	message := fmt.Sprintf("{\"msg\":%q,\"state\":%q}\n", v1beta1.MessageEffect, effect.State)
	return os.WriteFile(config.turnFile(), []byte(message), 0o644)
}

// takeTurn returns that message once, empty for none.
func takeTurn(config Config) string {
	message, err := os.ReadFile(config.turnFile())
	if errors.Is(err, fs.ErrNotExist) || removeStale(config.turnFile()) != nil {
		return ""
	}
	return string(message)
}

func missing(objects []string) string { return "no longer there: " + strings.Join(objects, ", ") }
