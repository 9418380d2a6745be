//go:build linux

package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// leftUntil is an object that stays on the node until a time.
type leftUntil struct{ end time.Time }

func (leftUntil) Inject(context.Context) error { return nil }
func (leftUntil) Clean(context.Context) error  { return nil }
func (leftUntil) Prove(context.Context) (v1beta1.EffectState, string, error) {
	return "", "", errors.ErrUnsupported
}

func (l leftUntil) Left(context.Context) ([]string, error) {
	if time.Now().After(l.end) {
		return nil, nil
	}
	return []string{"filter eth0"}, nil
}

// rule E2: with the settings of the product an injector notices within 5 s that its
// injection was removed, at any moment.
func TestWhatIsTakenOffIsSeenWithinFiveSeconds(t *testing.T) {
	dir := t.TempDir()
	for _, stood := range []time.Duration{0, time.Millisecond, 4999 * time.Millisecond, 5 * time.Second, 7 * time.Second, time.Minute} {
		t.Run(stood.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				config, err := loadConfig(nil)
				if err != nil {
					t.Fatal(err)
				}
				config.ReadyFile, config.ReasonFile = filepath.Join(dir, "ready"), filepath.Join(dir, "reason")
				end := time.Now().Add(stood)
				l := &lifecycle{
					config: config, log: zap.NewNop(), current: &target.Target{},
					session: &session{fault: fault{injector: leftUntil{end}}}, held: []string{"filter eth0"},
				}
				again, err := l.await(t.Context())
				if took := time.Since(end); err != nil || again == nil || took > 5*time.Second {
					t.Errorf("await() returned after %s with %v, want what injects again within 5s", took, err)
				}
			})
		})
	}
}
