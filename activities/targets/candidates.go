package targets

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
)

// Healthy lists the running pods, or ready nodes, that match the disruption's selector.
// With onInit it lists the pods that wait to be disrupted before they start. It reads
// live; a failure is an error, never an empty list.
func (s *Store) Healthy(ctx context.Context, d *v1beta1.Disruption) ([]Candidate, error) {
	var found []Candidate
	_, err := s.survey(ctx, d, func(c Candidate, why string) {
		if why == "" {
			found = append(found, c)
		}
	})
	return found, err
}

// Survey describes a disruption's candidates at one moment.
type Survey struct {
	// Healthy are the candidates that Healthy returns.
	Healthy []Candidate
	// Others match the selector and are no candidates.
	Others []Other
	// Holders are the disruptions that hold some of the candidates.
	Holders Holders
	// Wanted is how many targets the disruption would want, Chosen how many it would get.
	// Budget and Denied are the texts of NoteBudgets and NoteDenied.
	Wanted, Chosen int
	Budget, Denied string
	// Unread names what the caller may not read; it may change all other fields.
	Unread []string
	// UnreadNodes are the candidates that are not ready and whose node the caller may not
	// read: a pod on a node that is not ready is no candidate.
	UnreadNodes []string
}

// Other is a pod or node that matches the selector and is no candidate.
type Other struct {
	Target v1beta1.InjectionTarget
	// Why it is no candidate.
	Why string
}

// Survey returns the candidates that a disruption would have if it began now under
// these rules of policies, and why other pods or nodes are none. It claims and writes
// nothing.
func (s *Store) Survey(ctx context.Context, d *v1beta1.Disruption, rules []policy.Rule) (Survey, error) {
	var found Survey
	unread, err := s.survey(ctx, d, func(c Candidate, why string) {
		if why == "" {
			found.Healthy = append(found.Healthy, c)
			return
		}
		found.Others = append(found.Others, Other{c.Target, why})
	})
	if err != nil {
		return found, err
	}
	found.UnreadNodes = unread
	claims, err := s.claimed(ctx, d, found.Healthy, nil, true)
	if apierrors.IsForbidden(err) {
		found.Unread = append(found.Unread, "ConfigMaps of namespace "+s.Namespace+", in which disruptions claim targets")
	} else if err != nil {
		return found, err
	}
	budgets, err := s.Budgets(ctx, d)
	if apierrors.IsForbidden(err) {
		found.Unread = append(found.Unread, "PodDisruptionBudgets of namespace "+d.Namespace)
	} else if err != nil {
		return found, err
	}
	found.Holders = claims.Holders
	limits := Deny(rules, found.Healthy)
	left := slices.Concat(budgets, limits).at(claims).without(claims.held)
	next, wanted := nextClaims(d.Spec, found.Healthy, nil, nil, map[types.UID]bool{}, claims.Holders, left)
	found.Wanted, found.Chosen = wanted, len(next)
	var selection Selection
	selection.NoteBudgets(found.Healthy, budgets, claims)
	found.Budget = selection.Budget
	if len(next) < wanted {
		claims.Own = []Shard{{Targets: next}} // as if they were chosen: the rest is what the rules leave out
		selection.NoteDenied(found.Healthy, limits, claims)
		found.Denied = selection.Denied
	}
	return found, nil
}

// survey calls visit for each pod or node that the selector matches. why is empty for a
// candidate. It returns the candidates whose node the caller may not read.
func (s *Store) survey(ctx context.Context, d *v1beta1.Disruption, visit func(c Candidate, why string)) (unread []string, err error) {
	selector, err := d.Spec.LabelSelector()
	if err != nil {
		return nil, fmt.Errorf("selector of disruption %s/%s: %w", d.Namespace, d.Name, err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	options.Limit = s.pageSize
	if d.Spec.Level == v1beta1.LevelNode {
		return nil, s.readyNodes(ctx, d, options, visit)
	}
	nodes := nodeAnswers{unfit: map[string]string{}, forbidden: map[string]bool{}}
	var failed error
	err = s.eachPage(ctx, d.Namespace, options, func(pods *corev1.PodList) {
		for i := range pods.Items {
			pod := &pods.Items[i]
			c, why := judgePod(d, pod)
			if why == "" && !d.Spec.OnInit && kube.Unready(pod) != nil {
				why, failed = s.unfitNode(ctx, pod.Spec.NodeName, &nodes, failed)
				if why == "" && nodes.forbidden[pod.Spec.NodeName] {
					unread = append(unread, pod.Name)
				}
			}
			visit(c, why)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %s that match %q: %w", d.Namespace, options.LabelSelector, err)
	}
	return unread, failed
}

// nodeAnswers are what reads of nodes found, by the names of the nodes.
type nodeAnswers struct {
	// unfit is why no pod on the node is a candidate; empty if the node is ready.
	unfit map[string]string
	// forbidden are the nodes that the caller may not read.
	forbidden map[string]bool
}

// unfitNode returns why no pod on a node is a candidate; empty if the node is ready. A
// node that stops reporting makes its pods unready, so survey reads only the nodes of
// such pods. known keeps the answers, so that each node is read once. After a failure
// it reads no node.
func (s *Store) unfitNode(ctx context.Context, name string, known *nodeAnswers, failed error) (string, error) {
	why, found := known.unfit[name]
	if found || failed != nil {
		return why, failed
	}
	node, err := s.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		why = "its node is gone"
	case apierrors.IsForbidden(err): // the worker may; a person who plans may not
		known.forbidden[name] = true
	case err != nil:
		return "", fmt.Errorf("read node %s: %w", name, err)
	case !kube.NodeReady(node):
		why = "its node " + name + " is not ready"
	}
	known.unfit[name] = why
	return why, nil
}

// judgePod returns why a pod with the right labels is no candidate; empty if it is one.
func judgePod(d *v1beta1.Disruption, pod *corev1.Pod) (c Candidate, why string) {
	c = podCandidate(pod, wantedContainers(d.Spec))
	switch {
	case d.Spec.OnInit && !kube.PodWaits(pod):
		return c, "it does not wait for a disruption at its start"
	case !d.Spec.OnInit && !kube.PodHealthy(pod):
		return c, kube.Unfit(pod)
	case !d.Spec.Matches(pod.Labels, pod.Annotations):
		return c, "it lacks the annotations of spec.filter"
	}
	c.Target.SomeContainers = c.Target.SomeContainers && !d.Spec.OnInit
	if len(c.Target.Containers) == 0 && has(pod, c.Missing) {
		return c, "none of its containers that the disruption is about runs"
	}
	if d.Spec.RespectsOperations() {
		c.Operation = podops.OfDisruption(d.UID).Busy(pod)
		c.KeepsPlace = c.Operation != "" && time.Now().Before(d.Spec.BusyUntil(d.CreationTimestamp.Time))
	}
	if d.Spec.NeedsMemoryLimit() {
		c.Unlimited = kube.WithoutMemoryLimit(pod)
	}
	c.Static = kube.Static(pod)
	c.Unmanaged = d.Spec.SkipsUnmanaged() && !podops.Managed(pod)
	if d.Spec.PodReplacement != nil {
		c.Irreplaceable = kube.Irreplaceable(pod)
	}
	return c, ""
}

// wantedContainers returns the names of the containers that the disruption is about;
// empty means all running ones. With onInit it is the init container that holds the pod
// back.
func wantedContainers(spec v1beta1.DisruptionSpec) []string {
	if spec.OnInit {
		return []string{v1beta1.OnInitContainer}
	}
	return spec.Containers
}

// acquireList waits for one of the parallelLists slots.
func (s *Store) acquireList(ctx context.Context) error {
	select {
	case s.listSlots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for other disruptions that choose targets: %w", ctx.Err())
	}
}

func (s *Store) releaseList() { <-s.listSlots }

func (s *Store) readyNodes(ctx context.Context, d *v1beta1.Disruption, options metav1.ListOptions, visit func(c Candidate, why string)) error {
	if err := s.acquireList(ctx); err != nil {
		return err
	}
	defer s.releaseList()
	spared, err := s.sparedNodes(ctx, d.Spec)
	if err != nil {
		return err
	}
	err = kube.Pages(ctx, s.Kube.CoreV1().Nodes().List, options, func(nodes *corev1.NodeList) {
		for i := range nodes.Items {
			c, why := judgeNode(d, &nodes.Items[i])
			c.Spared = spared.why(&nodes.Items[i])
			visit(c, why)
		}
	})
	if err != nil {
		return fmt.Errorf("list nodes that match %q: %w", options.LabelSelector, err)
	}
	return nil
}

// judgeNode is judgePod for a node.
func judgeNode(d *v1beta1.Disruption, node *corev1.Node) (c Candidate, why string) {
	c.Target = v1beta1.InjectionTarget{Name: node.Name, UID: node.UID, NodeName: node.Name}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP || address.Type == corev1.NodeExternalIP {
			c.Target.NodeIPs = append(c.Target.NodeIPs, address.Address)
		}
	}
	switch {
	case !kube.NodeHealthy(node):
		return c, kube.UnfitNode(node)
	case !d.Spec.Matches(node.Labels, node.Annotations):
		return c, "it lacks the annotations of spec.filter"
	}
	c.Labels = node.Labels
	return c, ""
}

// has reports whether the pod has a container of that name, running or not. A pod whose
// wanted containers exist but do not run may become a candidate later. A pod without
// them never does, so it stays listed and a person learns why it is unusable.
func has(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool { return c.Name == container })
}

// podCandidate describes a pod as an injector needs it. wanted are the container names
// of spec.containers; empty means all running ones.
func podCandidate(pod *corev1.Pod, wanted []string) Candidate {
	c := Candidate{Labels: pod.Labels, Target: v1beta1.InjectionTarget{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, NodeName: pod.Spec.NodeName,
	}}
	for _, ip := range pod.Status.HostIPs {
		c.Target.NodeIPs = append(c.Target.NodeIPs, ip.IP)
	}
	for _, ip := range pod.Status.PodIPs {
		c.Target.PodIPs = append(c.Target.PodIPs, ip.IP)
	}
	running := 0
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.State.Running == nil {
			continue
		}
		running++
		if len(wanted) > 0 && !slices.Contains(wanted, status.Name) {
			continue
		}
		_, id, _ := strings.Cut(status.ContainerID, "://")
		c.Target.Containers = append(c.Target.Containers, v1beta1.InjectionContainer{Name: status.Name, ID: id})
	}
	c.Target.SomeContainers = len(c.Target.Containers) < running
	for _, name := range wanted {
		if !slices.ContainsFunc(c.Target.Containers, func(r v1beta1.InjectionContainer) bool { return r.Name == name }) {
			c.Missing = name
			c.Ephemeral = slices.ContainsFunc(pod.Spec.EphemeralContainers, func(e corev1.EphemeralContainer) bool { return e.Name == name })
		}
	}
	return c
}
