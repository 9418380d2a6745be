//go:build linux

package journal

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestTurnsExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	one, other := &Journal{path: dir + "/one.json"}, &Journal{path: dir + "/other.json"}
	turn, err := one.AwaitTurn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	brief, cancel := context.WithTimeout(t.Context(), 3*turnEvery)
	defer cancel()
	if second, err := other.AwaitTurn(brief); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("AwaitTurn beside another turn = %v, %v, want it to wait until its context ends", second, err)
	}
	if elsewhere, err := (&Journal{path: t.TempDir() + "/one.json"}).AwaitTurn(t.Context()); err != nil {
		t.Errorf("AwaitTurn of another directory = %v, want a turn", err)
	} else {
		elsewhere.Close()
	}
	time.AfterFunc(2*turnEvery, func() { turn.Close() })
	second, err := other.AwaitTurn(t.Context())
	if err != nil {
		t.Fatalf("AwaitTurn after the other turn = %v", err)
	}
	second.Close()
}
