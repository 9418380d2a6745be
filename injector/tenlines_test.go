//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

const smallKind v1beta1.Kind = "small"

// small is all the code of a kind: it writes an empty file.
type small struct {
	File string `json:"file"`
}

func newSmall(params small, _ *target.Target, _ *journal.Journal) small { return params }
func (small) capabilities() capabilities                                { return capabilities{} }
func (s small) Inject(context.Context) error                            { return os.WriteFile(s.File, nil, 0o600) }
func (s small) Clean(context.Context) error                             { return os.RemoveAll(s.File) }
func (s small) Left(context.Context) ([]string, error)                  { return filepath.Glob(s.File) }
func (s small) Prove(context.Context) (v1beta1.EffectState, string, error) {
	return v1beta1.EffectProven, "the file was written", nil
}

// A kind of ten lines and a row in the registry is injected, proven, held and cleaned.
func TestAKindOfTenLines(t *testing.T) {
	file, s := filepath.Join(t.TempDir(), "file"), fakeSite(t)
	p := s.inject(injectionOn(smallKind, fmt.Sprintf(`{"file":%q}`, file)))
	p.awaitReady()
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("after the clean-up: %v, want no file", err)
	}
	outcome := p.outcome()
	if !outcome.Cleaned || !outcome.Audited || outcome.Effect == nil || outcome.Effect.State != v1beta1.EffectProven {
		t.Errorf("outcome = %+v, want an effect that is proven, and cleaned", outcome)
	}
}
