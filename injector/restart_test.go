//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// The injector searches rarely for a container that was away for long, and still finds it
// as soon as it starts.
func TestAStartIsSeenInThePodsCgroup(t *testing.T) {
	first := testcontainer.Start(t, testcontainer.Sleeps...)
	loaded, err := target.Load(t.Context(), v1beta1.Injection{Level: v1beta1.LevelPod, Target: v1beta1.InjectionTarget{
		Containers: []v1beta1.InjectionContainer{{Name: "app", ID: first.ID}}}}, "")
	if err != nil {
		t.Fatal(err)
	}
	s := startsOf(loaded)
	s.soon = time.Time{} // long ago
	first.Kill(t)
	testcontainer.Start(t, testcontainer.Sleeps...)
	began := time.Now()
	s.await(t.Context(), 10*time.Minute)
	if took := time.Since(began); took > time.Minute || s.soon.Before(began) {
		t.Errorf("seen after %s, at %s; want when it started", took, s.soon)
	}
}
