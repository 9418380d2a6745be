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

// prover is an injector that measures whether its fault acts. Every kind is one.
type prover interface {
	// Prove says what was measured since Inject, with the figures in a short text.
	// It changes nothing, and takes no longer than a look into the kernel.
	Prove(context.Context) (v1beta1.EffectState, string, error)
}

const (
	// proveTimeout bounds one measurement.
	proveTimeout = 2 * time.Second
	// doubtful is how many looks in a row must see the fault act, or not act, before
	// either is believed over the other: what a target does changes from look to look.
	doubtful = 3
	// figuresEvery is how often figures are logged that have changed.
	figuresEvery = time.Minute
	// maxEvidence is the longest text of figures, in bytes.
	maxEvidence = 256
)

// proof is what is known of the effect of an injection.
type proof struct {
	effect v1beta1.Effect // the zero value: nothing was measured
	// doubts counts the looks in a row that saw another state.
	doubts int
}

// after is the proof after one more look, and whether the state turned.
func (p proof) after(state v1beta1.EffectState, evidence string, now time.Time) (proof, bool) {
	evidence = text.Shorten(evidence, maxEvidence)
	known := p.effect.State
	switch {
	case state == known:
		p.effect.Evidence, p.doubts = evidence, 0
		return p, false
	case known == v1beta1.EffectProven && state == v1beta1.EffectNothingMatchedYet:
		return p, false // it was put on anew, as by a pulse, and counts from the beginning
	case known == v1beta1.EffectProven && state == v1beta1.EffectIneffective, known == v1beta1.EffectIneffective && state == v1beta1.EffectProven:
		if p.doubts++; p.doubts < doubtful {
			return p, false
		}
	}
	return proof{effect: v1beta1.Effect{State: state, Evidence: evidence, Since: metav1.NewTime(now.Truncate(time.Second))}}, true
}

// worse tells whether somebody must be told of a state: of the others it is asked.
func worse(state v1beta1.EffectState) bool {
	return state == v1beta1.EffectLost || state == v1beta1.EffectIneffective
}

// prove measures what is in force. What cannot be measured leaves the proof as it is.
func (l *lifecycle) prove(ctx context.Context) {
	kind, ok := l.kind().(prover)
	if !ok || l.session.over || l.injection.DryRun {
		return
	}
	var state v1beta1.EffectState
	var evidence string
	err := bounded(ctx, proveTimeout, func(ctx context.Context) (err error) {
		state, evidence, err = kind.Prove(ctx)
		return err
	})
	if err != nil {
		l.log.Warn("the effect of the fault cannot be measured", zap.String("reason", err.Error()))
		return
	}
	l.see(state, evidence)
}

// see takes down what was measured, and says so when it turned.
func (l *lifecycle) see(state v1beta1.EffectState, evidence string) {
	next, turned := l.proof.after(state, evidence, time.Now())
	before := l.proof.effect.Evidence
	l.proof = next
	switch {
	case turned:
		l.tellEffect(v1beta1.MessageEffect)
		if !worse(state) {
			return
		}
		if err := tellTurn(l.config, next.effect); err != nil {
			l.log.Warn("the readiness probe cannot report that the effect changed", zap.String("reason", err.Error()))
		}
	case before != evidence && time.Since(l.figures) >= figuresEvery:
		l.tellEffect(v1beta1.MessageFigures)
	}
}

// lose takes down that something else took the fault off.
func (l *lifecycle) lose(why string) {
	if l.proof.effect.State != "" && !l.injection.DryRun {
		l.see(v1beta1.EffectLost, why)
	}
}

// tellEffect logs one v1beta1.EffectLine.
func (l *lifecycle) tellEffect(message string) {
	e := l.proof.effect
	l.figures = time.Now()
	l.log.Info(message, zap.String("state", string(e.State)), zap.String("evidence", e.Evidence), zap.String("since", e.Since.UTC().Format(time.RFC3339)))
}

// lastEffect is the effect for the report, with the figures of the end.
func (l *lifecycle) lastEffect() *v1beta1.Effect {
	if l.proof.effect.State == "" {
		return nil
	}
	return &l.proof.effect
}

// turnFile is there from a turn for the worse until a probe has told it.
func (c Config) turnFile() string { return c.ReadyFile + "_turned" }

// tellTurn has the next readiness probe fail, and no other: the chaos pod is not
// ready for one period of it, which whoever watches chaos pods is told of.
func tellTurn(config Config, effect v1beta1.Effect) error {
	message := fmt.Sprintf("{\"msg\":%q,\"state\":%q}\n", v1beta1.MessageEffect, effect.State)
	return os.WriteFile(config.turnFile(), []byte(message), 0o644)
}

// takeTurn is that message, once; empty for none.
func takeTurn(config Config) string {
	message, err := os.ReadFile(config.turnFile())
	if errors.Is(err, fs.ErrNotExist) || removeStale(config.turnFile()) != nil {
		return ""
	}
	return string(message)
}

func missing(objects []string) string { return "no longer there: " + strings.Join(objects, ", ") }
