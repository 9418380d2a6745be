package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/test/promise"
)

const (
	// targetCount pods are disrupted over and over, half of them fragile: their
	// containers are killed, too.
	targetCount = 8
	// listenerCount pods more answer gRPC calls on listenerPort.
	listenerCount, listenerPort = 2, 50051
	// movedCount pods of a Deployment are replaced.
	movedCount = 2
	// servedCount pods are moved from phase to phase by the bridge's driver.
	servedCount = 4
	// startPatience is how long a disruption that is to be deleted while it holds
	// is waited for; one without a free target never holds.
	startPatience = 20 * time.Second
	// endPatience is how long a disruption that should end keeps its place from the
	// next one. A slower one is still waited for in the end.
	endPatience = 30 * time.Second
	// crowd is how many disruptions for each place may be under way, those that lost
	// their place included: a cluster that is too slow gets no more and more to do.
	crowd = 4
	// namePrefix begins the names of the namespaces of targets.
	namePrefix = "soak-"
	// tidyPatience is how long what an earlier run left may take to go.
	tidyPatience = 3 * time.Minute
)

// tidy removes the targets that an earlier run left to be looked at: they would
// take their part of the nodes and make this one slower.
func (s *soak) tidy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tidyPatience)
	defer cancel()
	return promise.Persist(ctx, func(ctx context.Context) error {
		var namespaces corev1.NamespaceList
		if err := s.client.List(ctx, &namespaces); err != nil {
			return fmt.Errorf("look for targets of earlier runs: %w", err)
		}
		var left error
		for _, n := range namespaces.Items {
			if !strings.HasPrefix(n.Name, namePrefix) {
				continue
			}
			left = fmt.Errorf("namespace %s of an earlier run is not gone; its disruptions may be stuck (docs/stuck.md)", n.Name)
			if n.DeletionTimestamp != nil {
				continue
			}
			s.screen.logf("namespace %s of an earlier run is removed", n.Name)
			if err := s.client.Delete(ctx, &n); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("remove namespace %s of an earlier run: %w", n.Name, err)
			}
		}
		return left
	})
}

// prepare starts the targets and looks at them.
func (s *soak) prepare(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: namePrefix}}
	if err := s.client.Create(ctx, namespace); err != nil {
		return fmt.Errorf("make a namespace for targets: %w", err)
	}
	s.space = namespace.Name
	targets := []client.Object{s.moved()}
	for i := range targetCount {
		targets = append(targets, s.target(i))
	}
	for i := range listenerCount {
		targets = append(targets, s.listener(i))
	}
	for i := range servedCount {
		targets = append(targets, s.served(i))
	}
	for _, target := range targets {
		if err := s.client.Create(ctx, target); err != nil {
			return fmt.Errorf("start a target: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return promise.Persist(ctx, func(ctx context.Context) (err error) {
		s.before, err = s.snapshots(ctx)
		return err
	})
}

// target is a pod to disrupt, on the nodes in turn.
func (s *soak) target(i int) *corev1.Pod {
	labels := map[string]string{"app": "target"}
	if i >= targetCount/2 {
		labels["fragile"] = "yes"
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: fmt.Sprintf("target-%d", i), Labels: labels}, Spec: podSpec()}
	pod.Spec.NodeName = s.nodes[i%len(s.nodes)].name
	return pod
}

// listener is a target that answers gRPC calls.
func (s *soak) listener(i int) *corev1.Pod {
	pod := s.target(i)
	pod.Name, pod.Labels = fmt.Sprintf("listener-%d", i), map[string]string{"app": "listener"}
	pod.Spec.Containers[0].Image = "squall.local/probe:dev"
	pod.Spec.Containers[0].Args = []string{"grpc", "--listen", fmt.Sprintf(":%d", listenerPort)}
	return pod
}

// served is a target that is taken out of service before it is disrupted.
func (s *soak) served(i int) *corev1.Pod {
	pod := s.target(i)
	pod.Name, pod.Labels = fmt.Sprintf("served-%d", i), map[string]string{"app": "served", podops.LabelManaged: podops.ManagedValue}
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: podops.ReadinessGate}}
	return pod
}

// moved is a Deployment of targets that are replaced.
func (s *soak) moved() *appsv1.Deployment {
	replicas, labels := int32(movedCount), map[string]string{"app": "moved"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: "moved"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers: []corev1.Container{{
			Name: "target", Image: "squall.local/target:dev", ImagePullPolicy: corev1.PullIfNotPresent, Args: []string{"serve"},
			Resources:    corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m"), corev1.ResourceMemory: resource.MustParse("128Mi")}, Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
}

// trials begins disruptions, several at a time, until as many as wanted were
// injected and killing proved something; then it calls enough. It returns when all
// places are free.
func (s *soak) trials(ctx context.Context, wanted int, storm bool, enough func()) {
	var places sync.WaitGroup
	for range s.parallel {
		places.Go(func() {
			for ctx.Err() == nil && (s.view.count(func(t *trial) bool { return t.begun }) < wanted || s.spared(storm)) {
				if s.await(ctx, endPatience, func() bool { return s.view.underWay() < crowd*s.parallel }) {
					s.try(ctx, s.newTrial(storm))
				}
			}
			enough()
		})
	}
	places.Wait()
}

func (s *soak) newTrial(storm bool) *trial {
	n := int(s.made.Add(1))
	return &trial{plan: planOf(s.seed, n), name: fmt.Sprintf("soak-%04d", n), storm: storm}
}

// try lets a disruption come and go. A call is repeated until it succeeds, also
// after the soak was asked to end.
func (s *soak) try(ctx context.Context, t *trial) {
	alive, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.heal)
	defer cancel()
	if err := promise.Persist(alive, func(ctx context.Context) error { return s.begin(ctx, t) }); err != nil {
		s.screen.logf("%s could not be created: %v", t.name, err)
		return
	}
	switch t.ending {
	case expires:
		s.view.read(func() { t.asked = t.created.Add(t.spec.Duration.Duration) })
		_ = promise.Pause(ctx, t.spec.Duration.Duration)
	case deleted:
		s.await(ctx, startPatience, func() bool { return t.injected })
		_ = promise.Pause(ctx, t.after)
	case nipped:
		_ = promise.Pause(ctx, t.after)
	}
	if t.ending != expires || ctx.Err() != nil {
		s.end(alive, t)
	}
	s.await(ctx, endPatience, func() bool { return !t.ended.IsZero() })
}

// begin creates the disruption, unless an answer that was lost did.
func (s *soak) begin(ctx context.Context, t *trial) error {
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: t.name}, Spec: t.spec}
	err := s.client.Create(ctx, d)
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Get(ctx, client.ObjectKeyFromObject(d), d)
	}
	if err != nil {
		return err
	}
	s.view.read(func() {
		t.uid, t.created = d.UID, time.Now()
		s.view.trials[t.name] = t
	})
	return nil
}

// end deletes the disruption.
func (s *soak) end(ctx context.Context, t *trial) {
	d := &v1beta1.Disruption{ObjectMeta: metav1.ObjectMeta{Namespace: s.space, Name: t.name}}
	err := promise.Persist(ctx, func(ctx context.Context) error {
		return client.IgnoreNotFound(s.client.Delete(ctx, d))
	})
	if err != nil {
		s.screen.logf("%s could not be deleted: %v", t.name, err)
	}
	s.view.read(func() {
		if t.asked.IsZero() {
			t.asked = time.Now()
		}
	})
}

// await waits until something is seen, for a time; true if it was.
func (s *soak) await(ctx context.Context, within time.Duration, seen func() bool) (was bool) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		s.view.read(func() { was = seen() })
		if was || promise.Pause(ctx, lookGap/3) != nil {
			return was
		}
	}
}
