package main

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
)

// Watchers run however many activities call the API server, and a cleaning finds a slot
// however many watchers run.
func TestWatchersTakeNoSlots(t *testing.T) {
	beating := &heartbeats{gap: time.Second, slots: make(chan struct{}, 1)}
	begun, end := make(chan string, 10), make(chan struct{})
	run := func(name string) {
		go func() {
			var suite testsuite.WorkflowTestSuite
			env := suite.NewTestActivityEnvironment()
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{beating}})
			f := func(context.Context) error { begun <- name; <-end; return nil }
			env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
			_, _ = env.ExecuteActivity(name)
		}()
	}
	wants := func(name string) {
		t.Helper()
		if now := <-begun; now != name {
			t.Fatalf("%s begins, want %s", now, name)
		}
	}
	for range 3 {
		run(watcher)
	}
	for range 3 {
		wants(watcher)
	}
	run("CleanChaosPods")
	wants("CleanChaosPods")
	for range 5 {
		run("Finish") // they wait
	}
	for range 5 {
		run(watcher)
	}
	for range 5 {
		wants(watcher)
	}
	close(end)
	for range 5 {
		wants("Finish")
	}
}
