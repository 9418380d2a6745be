package main

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	namespace      = "squall-demo"
	chaosNamespace = "squall-chaos"
)

//go:embed workload.yaml
var workload string

//go:embed disruptions.yaml
var disruptions string

// story holds the demo's cluster and screen.
type story struct {
	kubectl
	place  *place
	screen *screen

	targets map[string]pod      // of the workload, by name
	chosen  map[string][]string // targets by disruption
	uids    []string            // of the disruptions
}

func (s *story) play(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{
		s.workload, s.network, s.pressure, s.early, s.failure, s.over, s.aborted, s.nothingLeft,
	} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

// workload starts what will be disturbed, and takes away an earlier demo's
// disruptions.
func (s *story) workload(ctx context.Context) error {
	s.screen.chapter("A workload: 3 pods that answer, 1 pod that asks")
	if _, err := s.feed(ctx, strings.ReplaceAll(workload, "squall.local/target:dev", s.place.targetImage), "apply", "-f", "-"); err != nil {
		return err
	}
	if _, err := s.run(ctx, "-n", namespace, "delete", "disruptions", "--all", "--timeout=90s"); err != nil {
		return err
	}
	for _, name := range []string{"target", "client"} {
		if _, err := s.run(ctx, "-n", namespace, "rollout", "status", "deployment/"+name, "--timeout=90s"); err != nil {
			return err
		}
	}
	list, err := s.settled(ctx)
	if err != nil {
		return err
	}
	s.targets = map[string]pod{}
	for _, p := range list.Items {
		s.targets[p.Metadata.Name] = p
		s.screen.logf("  %s on %s", p.Metadata.Name, p.Spec.NodeName)
	}
	return nil
}

func (s *story) network(ctx context.Context) error {
	s.screen.chapter("1. Drop 40 %% of the packets of 2 of the 3 pods, for 30 s")
	if err := s.losses(ctx, "before", nil); err != nil {
		return err
	}
	chosen, err := s.inject(ctx, "drop-packets")
	if err != nil {
		return err
	}
	return s.losses(ctx, "during", chosen)
}

// losses pings every pod and compares with what should be: 40 % of those chosen.
func (s *story) losses(ctx context.Context, when string, chosen []string) error {
	patience := time.Second // on a busy machine an answer may be late without being lost
	if len(chosen) > 0 {
		patience = 250 * time.Millisecond
	}
	lost, err := s.ping(ctx, patience)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(lost)) {
		percent := lost[name]
		if slices.Contains(chosen, name) {
			// 200 datagrams: 40 % give or take 4.
			s.screen.check(percent > 22 && percent < 60, "%s  %s  %3.0f %% of the packets lost", when, name, percent)
			continue
		}
		s.screen.check(percent < 5, "%s  %s  %3.0f %% of the packets lost", when, name, percent)
	}
	return nil
}

func (s *story) pressure(ctx context.Context) error {
	s.screen.chapter("2. Meanwhile, processor pressure on a pod that no other disruption has")
	free := s.undisturbed()
	before, err := s.cores(ctx, free)
	if err != nil {
		return err
	}
	s.screen.check(before < 0.1, "before  %s takes %.2f cores of the 0.50 it may take", free, before)
	chosen, err := s.inject(ctx, "burn-cpu")
	if err != nil {
		return err
	}
	s.screen.check(len(chosen) == 1 && chosen[0] == free, "the two disruptions share no pod: %s", strings.Join(chosen, ", "))
	during, err := s.cores(ctx, free)
	if err != nil {
		return err
	}
	s.screen.check(during > 0.3, "during  %s takes %.2f cores", free, during)
	return nil
}

// undisturbed is a pod that the first disruption did not choose.
func (s *story) undisturbed() string {
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		if !slices.Contains(s.chosen["drop-packets"], name) {
			return name
		}
	}
	return ""
}

func (s *story) early(ctx context.Context) error {
	s.screen.chapter("3. End it early, long before its 10 minutes are over")
	s.screen.quote("$ kubectl -n " + namespace + " delete disruption burn-cpu")
	if _, err := s.run(ctx, "-n", namespace, "delete", "disruption", "burn-cpu", "--timeout=60s"); err != nil {
		return err
	}
	s.screen.check(true, "the Disruption and its finalizer are gone")
	list := podList{}
	if err := s.get(ctx, &list, "-n", chaosNamespace, "pods", "-l", "chaos.squall.dev/disruption-name=burn-cpu,chaos.squall.dev/disruption-namespace="+namespace); err != nil {
		return err
	}
	s.screen.check(len(list.Items) == 0, "%d of its chaos pods are left", len(list.Items))
	after, err := s.cores(ctx, s.chosen["burn-cpu"][0])
	if err != nil {
		return err
	}
	s.screen.check(after < 0.1, "after   %s takes %.2f cores", s.chosen["burn-cpu"][0], after)
	return nil
}

func (s *story) failure(ctx context.Context) error {
	s.screen.chapter("4. Kill the container of a pod")
	free := s.undisturbed()
	before, err := s.read(ctx, free)
	if err != nil {
		return err
	}
	s.screen.logf("  before  %s was restarted %d times", free, before.restarts())
	chosen, err := s.inject(ctx, "kill-container")
	if err != nil {
		return err
	}
	after, err := s.await(ctx, chosen[0], func(p pod) bool { return p.restarts() > before.restarts() })
	if err != nil {
		return err
	}
	s.screen.check(after.restarts() > before.restarts(), "after   %s was restarted %d times", chosen[0], after.restarts())
	return nil
}

// over waits until what still goes on ends by itself.
func (s *story) over(ctx context.Context) error {
	s.screen.chapter("5. The rest ends by itself when its duration is over")
	for _, name := range []string{"drop-packets", "kill-container"} {
		if err := s.wait(ctx, name, ".status.phase", "Finished"); err != nil {
			return err
		}
	}
	if _, err := s.run(ctx, "-n", namespace, "wait", "pods", "-l", "app=target", "--for=condition=Ready", "--timeout=60s"); err != nil {
		return err
	}
	if err := s.losses(ctx, "after ", nil); err != nil {
		return err
	}
	return s.list(ctx)
}

// aborted lets a probe end a disruption without a person.
func (s *story) aborted(ctx context.Context) error {
	s.screen.chapter("6. No request reaches a pod any more, for 10 minutes: a probe ends it by itself")
	const name = "refuse-answers"
	if err := s.apply(ctx, name); err != nil {
		return err
	}
	began := time.Now()
	if err := s.wait(ctx, name, ".status.phase", "Finished"); err != nil {
		return err
	}
	d := disruption{}
	if err := s.get(ctx, &d, "-n", namespace, "disruption", name); err != nil {
		return err
	}
	s.uids = append(s.uids, d.Metadata.UID)
	if err := s.list(ctx, name); err != nil {
		return err
	}
	steady := d.Status.SteadyState
	s.screen.check(steady.Verdict == "Aborted" && strings.HasPrefix(d.Status.Ending, "aborted: "), "verdict %s after %.0f s, ending %q", steady.Verdict, time.Since(began).Seconds(), d.Status.Ending)
	s.screen.check(len(steady.Probes) == 1 && steady.Probes[0].State == "Success", "the pod answers again")
	return nil
}

// inject creates a disruption, waits until it is in place and returns its
// targets.
func (s *story) inject(ctx context.Context, name string) ([]string, error) {
	if err := s.apply(ctx, name); err != nil {
		return nil, err
	}
	if err := s.wait(ctx, name, ".status.injectionStatus", "Injected"); err != nil {
		return nil, err
	}
	d := disruption{}
	if err := s.get(ctx, &d, "-n", namespace, "disruption", name); err != nil {
		return nil, err
	}
	if s.chosen == nil {
		s.chosen = map[string][]string{}
	}
	s.chosen[name] = slices.Sorted(maps.Keys(d.Status.TargetInjections))
	s.uids = append(s.uids, d.Metadata.UID)
	if err := s.list(ctx, name); err != nil {
		return nil, err
	}
	if s.place.ui != "" {
		s.screen.logf("  in Temporal: %s/namespaces/default/workflows/%s/%s/history", s.place.ui, url.PathEscape(d.Status.Workflow.ID), d.Status.Workflow.RunID)
	}
	return s.chosen[name], nil
}

// apply creates a disruption, as a user does.
func (s *story) apply(ctx context.Context, name string) error {
	document, err := manifest(name)
	if err != nil {
		return err
	}
	_, spec, _ := strings.Cut(document, "\nspec:")
	s.screen.quote("$ kubectl apply -f " + name + ".yaml\n" + "spec:" + spec)
	_, err = s.feed(ctx, document, "-n", namespace, "apply", "-f", "-")
	return err
}

func manifest(name string) (string, error) {
	for document := range strings.SplitSeq(disruptions, "---\n") {
		if strings.Contains(document, "metadata: {name: "+name+"}") {
			return strings.TrimSpace(document), nil
		}
	}
	return "", fmt.Errorf("disruptions.yaml has no %s", name)
}

// wait waits for a field of a disruption and shows the disruption if it does
// not come.
func (s *story) wait(ctx context.Context, name, field, value string) error {
	_, err := s.run(ctx, "-n", namespace, "wait", "disruption/"+name, "--for=jsonpath={"+field+"}="+value, "--timeout=90s")
	if err != nil {
		description, _ := s.run(ctx, "-n", namespace, "describe", "disruption", name)
		pods, _ := s.run(ctx, "-n", chaosNamespace, "get", "pods", "-o", "wide")
		return fmt.Errorf("%w\n%s\n%s", err, description, pods)
	}
	return nil
}

// list shows disruptions as users see them.
func (s *story) list(ctx context.Context, names ...string) error {
	out, err := s.run(ctx, append([]string{"-n", namespace, "get", "disruptions"}, names...)...)
	if err != nil {
		return err
	}
	s.screen.quote("$ kubectl -n " + namespace + " get dis " + strings.Join(names, " ") + "\n" + out)
	return nil
}
