package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestAStageBesideTheNext(t *testing.T) {
	for name, fails := range map[string]error{"both pass": nil, "the one beside fails": errors.New("it has a fault")} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			s := &suite{root: ".", began: time.Now(), out: &out}
			met, ran := make(chan struct{}), false
			stages := []stage{
				{name: "apart", beside: true, limit: time.Minute, run: func(ctx context.Context, _ *counts) error {
					select {
					case <-met:
					case <-ctx.Done():
						return ctx.Err()
					}
					return fails
				}},
				{name: "first", limit: time.Minute, run: func(ctx context.Context, _ *counts) error {
					select {
					case met <- struct{}{}: // or it does not go on meanwhile
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}},
				{name: "last", needs: []string{"apart"}, limit: time.Minute, run: func(context.Context, *counts) error {
					ran = true
					return nil
				}},
			}
			passed := s.run(t.Context(), stages)
			if want := fails == nil; passed != want || ran != want {
				t.Errorf("passed %t, the stage that needs it ran %t; want %t", passed, ran, want)
			}
			if fails != nil && !strings.Contains(out.String(), "apart FAILED: it has a fault") {
				t.Errorf("said %q, want why it failed", out.String())
			}
		})
	}
}
