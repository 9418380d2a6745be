package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// ping sends 200 datagrams to each of the workload's pods and returns how many
// were lost, in percent.
func (s *story) ping(ctx context.Context, patience time.Duration) (map[string]float64, error) {
	lost := map[string]float64{}
	var failed error
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, target := range s.targets {
		all.Go(func() {
			var result struct{ Sent, Received int }
			err := s.exec(ctx, &result, "deployment/client", "/target", "ping", "--udp", target.Status.PodIP+":9090",
				"--sockets", "10", "--count", "20", "--timeout", patience.String(), "--interval", "5ms")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = err
				return
			}
			lost[name] = 100 * float64(result.Sent-result.Received) / float64(max(result.Sent, 1))
		})
	}
	all.Wait()
	return lost, failed
}

// cores is what a pod's container takes, measured by itself over a second and a half.
func (s *story) cores(ctx context.Context, name string) (float64, error) {
	var result struct{ Cores float64 }
	err := s.exec(ctx, &result, name, "/target", "cpu", "--for", "1500ms")
	return result.Cores, err
}

func (s *story) read(ctx context.Context, name string) (pod, error) {
	p := pod{}
	return p, s.get(ctx, &p, "-n", namespace, "pod", name)
}

// await reads a pod until it is as wanted, for at most half a minute; then it
// returns it as it is.
func (s *story) await(ctx context.Context, name string, wanted func(pod) bool) (pod, error) {
	deadline := time.Now().Add(30 * time.Second)
	for {
		p, err := s.read(ctx, name)
		if err != nil || wanted(p) || time.Now().After(deadline) {
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, fmt.Errorf("wait for pod %s: %w", name, ctx.Err())
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// settled lists the workload's pods once those of an earlier demo have gone.
func (s *story) settled(ctx context.Context) (list podList, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if err := s.get(ctx, &list, "-n", namespace, "pods", "-l", "app=target"); err != nil {
			return list, err
		}
		if len(list.Items) == 3 {
			return list, nil
		}
		select {
		case <-ctx.Done():
			return list, fmt.Errorf("the workload has %d pods after a minute, want 3", len(list.Items))
		case <-time.After(500 * time.Millisecond):
		}
	}
}
