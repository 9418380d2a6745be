package disruption

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/kube/podops"
	"github.com/squall-chaos/squall/workflows/contract"
)

// snapshot is what the caches hold of one disruption at one moment.
type snapshot struct {
	at         time.Time
	disruption *v1beta1.Disruption
	chaosPods  []corev1.Pod
	targets    []target
	// services is what the services that it names stand for; nil if unknown.
	services []string
	// budgets are the PodDisruptionBudgets of its namespace, if they matter to it.
	budgets []policyv1.PodDisruptionBudget
	// policies are all DisruptionPolicies, if they matter to it.
	policies []v1beta1.DisruptionPolicy
	// freed counts how often other Disruptions freed targets that this one may wait for.
	freed int
	// missing counts chaos pods that unlisted found missing for long enough.
	missing int
}

// target is a pod of the disruption's namespace, or a node: a chosen one or a candidate.
type target struct {
	name string
	uid  types.UID
	// stays is false for a target that is being deleted, has ended, no longer matches the
	// selector or is operated on. The disruption then loses it (rules 38, 39a, L11). A node
	// that is not ready stays.
	stays bool
	// free is true for a target that could be chosen.
	free bool
	// operated is true for a target that the disruption leaves alone while an operation
	// lasts.
	operated bool
	// operation is the step that the disruption's own operation on the target has reached;
	// empty without one. taken is true for a target that a driver moves and has not granted
	// to the disruption.
	operation string
	taken     bool
}

// observe reduces a snapshot to the facts a workflow must act on. Two snapshots with the
// same facts have the same hash. Readiness, resource versions, heartbeats and the order of
// the caches do not change it.
func observe(s snapshot) contract.Observation {
	operations := operationChanges(s.targets)
	if cleansOnly(s.disruption) {
		return contract.Observation{Hash: hash(operations), Operations: len(operations)}
	}
	ended := append(endedPods(s.chaosPods), missingPods(s.disruption, s.chaosPods)...)
	if s.missing > 0 {
		ended = append(ended, fmt.Sprintf("missing %d", s.missing))
	}
	chosen := chosen(s.disruption, s.chaosPods)
	lost := append(lostTargets(chosen, s.targets), takenTargets(s.chaosPods, s.targets)...)
	for n := range surplus(s.disruption, chosen, s.targets) {
		lost = append(lost, fmt.Sprintf("surplus %d", n))
	}
	candidates := candidates(s.disruption, chosen, s.targets)
	changed := changedSpec(s.disruption)
	unready := unreadyPods(s.disruption, s.chaosPods)
	services := ""
	if len(s.services) > 0 {
		services = hash(s.services)
	}
	return contract.Observation{
		Hash:        hash(ended, lost, candidates, unready, []string{changed}, s.services, limitChanges(s), operations),
		Operations:  len(operations),
		Unready:     len(unready),
		Ended:       len(ended) + max(s.missing-1, 0),
		TargetsLost: len(lost),
		Candidates:  len(candidates),
		Services:    services,
		Shards:      shardsOf(slices.Concat(ended, lost), s.chaosPods),
		SpecChanged: changed != "",
	}
}

// shardsOf returns, in order, the shards of the ended pods and lost targets. Each change
// has the form "<sort> <UID>". shardsOf returns nil if a chaos pod is unknown or has no
// shard label, or if there are too many shards.
func shardsOf(changes []string, pods []corev1.Pod) []int {
	if len(changes) == 0 {
		return nil
	}
	labels := make(map[string]string, 2*len(pods))
	for i := range pods {
		shard := pods[i].Labels[v1beta1.LabelShard]
		labels[string(pods[i].UID)], labels[pods[i].Labels[v1beta1.LabelTargetUID]] = shard, shard
	}
	delete(labels, "")
	numbers := map[int]bool{}
	for _, one := range changes {
		_, uid, _ := strings.Cut(one, " ")
		number, err := strconv.Atoi(labels[uid])
		if err != nil {
			return nil
		}
		numbers[number] = true
	}
	if len(numbers) > contract.MaxShards {
		return nil
	}
	return slices.Sorted(maps.Keys(numbers))
}

// alreadyInStatus is true when status contains everything that was observed, so a bridge
// that has sent nothing yet need not begin. Then the disruption has all the targets it
// wants, all of them well, and status counts every candidate. Status does not contain the
// addresses of services.
func alreadyInStatus(d *v1beta1.Disruption, o contract.Observation) bool {
	s := d.Status
	return o.Ended == 0 && o.TargetsLost == 0 && o.Operations == 0 && o.Unready == 0 && !o.SpecChanged && o.Services == "" &&
		s.SelectedTargetsCount > 0 && s.SelectedTargetsCount == s.DesiredTargetsCount &&
		(d.Spec.StaticTargeting || o.Candidates == matchingInStatus(d))
}

// chosenBetween is true when the workflow chose by a state between two observations, and
// has something to do: there are more candidates than status counts matching targets, or
// fewer and targets are lost or surplus.
func chosenBetween(d *v1beta1.Disruption, o contract.Observation) bool {
	if d.Spec.StaticTargeting || d.Ending() {
		return false
	}
	counted := matchingInStatus(d)
	return o.Candidates > counted || o.Candidates < counted && o.TargetsLost > 0
}

// matchingInStatus is how many matching targets status counts.
func matchingInStatus(d *v1beta1.Disruption) int {
	return d.Status.SelectedTargetsCount + d.Status.IgnoredTargetsCount
}

// podTargets are the pods of a namespace as targets of d. A pod on a node that is not ready
// is not free.
func podTargets(d *v1beta1.Disruption, pods []corev1.Pod, unreadyNodes map[string]bool) []target {
	spec, operation := d.Spec, podops.OfDisruption(d.UID)
	participates := spec.ParticipatesInOperations()
	matches := matcher(spec)
	respects, releases := spec.RespectsOperations(), spec.ReleasesOnOperation()
	targets := make([]target, 0, len(pods))
	for i := range pods {
		p := &pods[i]
		stays, free := kube.PodHealthy(p), kube.PodHealthy(p)
		if spec.OnInit {
			stays, free = kube.PodUp(p) && p.DeletionTimestamp == nil, kube.PodWaits(p)
		}
		operated, matching := respects && operation.Busy(p) != "", matches(p)
		t := target{name: p.Name, uid: p.UID, stays: stays && matching && !(operated && releases), free: free && matching && !unreadyNodes[p.Spec.NodeName], operated: operated}
		if participates {
			t.operation, t.taken = operationOn(d, operation, p), podops.Managed(p) && !operation.Holds(p)
		}
		targets = append(targets, t)
	}
	return targets
}

// nodeTargets are the cluster's nodes as targets of spec.
func nodeTargets(spec v1beta1.DisruptionSpec, nodes []corev1.Node) []target {
	matches := matcher(spec)
	targets := make([]target, 0, len(nodes))
	for i := range nodes {
		n := &nodes[i]
		matching := matches(n)
		targets = append(targets, target{name: n.Name, uid: n.UID, stays: matching && n.DeletionTimestamp == nil, free: matching && kube.NodeHealthy(n)})
	}
	return targets
}

func endedPods(pods []corev1.Pod) []string {
	var ended []string
	for i := range pods {
		switch p := &pods[i]; {
		case kube.InjectorEnded(p):
			ended = append(ended, "ended "+string(p.UID))
		case p.DeletionTimestamp != nil:
			ended = append(ended, "deleting "+string(p.UID))
		}
	}
	return ended
}

// unreadyPods are chaos pods that injected and then ceased to be ready, also if only for a
// while: their effect changed. Each time that a pod ceases to be ready counts separately.
func unreadyPods(d *v1beta1.Disruption, pods []corev1.Pod) []string {
	if d.Ending() || d.Status.InjectionStatus != v1beta1.Injected {
		return nil
	}
	injected := make(map[string]v1beta1.TargetInjection)
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			injected[injection.InjectorPodName] = injection
		}
	}
	var unready []string
	for i := range pods {
		p := &pods[i]
		known := injected[p.Name]
		condition := cmp.Or(kube.Unready(p), kube.ReadyAgain(p, known.Effect))
		if condition != nil && known.InjectionStatus == v1beta1.Injected && !kube.InjectorEnded(p) && p.DeletionTimestamp == nil {
			unready = append(unready, fmt.Sprintf("unready %s %s %d", p.UID, condition.Status, condition.LastTransitionTime.Unix()))
		}
	}
	return unready
}

// missingPods are chaos pods that injected and no longer exist: a person removed the
// finalizer, and the bridge missed their end. While a disruption is being cleaned up the
// worker deletes them.
func missingPods(d *v1beta1.Disruption, pods []corev1.Pod) []string {
	if d.Ending() {
		return nil
	}
	there := make(map[string]bool, len(pods))
	for i := range pods {
		there[pods[i].Name] = true
	}
	var missing []string
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			name := injection.InjectorPodName
			if name != "" && injection.InjectionStatus == v1beta1.Injected && !there[name] {
				missing = append(missing, "missing "+name)
			}
		}
	}
	return missing
}

// unlisted counts the missing chaos pods that status counts as injected. The status of a
// large disruption counts its targets and lists only those that are not injected.
func unlisted(d *v1beta1.Disruption, pods []corev1.Pod) int {
	if d.Ending() || byWorker(d) || len(d.Status.TargetInjections) >= d.Status.SelectedTargetsCount {
		return 0
	}
	waiting := make(map[types.UID]bool)
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			waiting[injection.TargetUID] = waiting[injection.TargetUID] || injection.InjectionStatus != v1beta1.Injected
		}
	}
	there := 0
	for i := range pods {
		if !waiting[types.UID(pods[i].Labels[v1beta1.LabelTargetUID])] {
			there++
		}
	}
	kinds := max(1, len(v1beta1.ParseKinds(d.Status.Kinds)))
	return max(0, d.Status.InjectedTargetsCount*kinds-there)
}

// byWorker is true for a disruption without chaos pods: the worker removes its targets.
func byWorker(d *v1beta1.Disruption) bool {
	return v1beta1.ParseKinds(d.Status.Kinds).By() == v1beta1.ByWorker
}

// chosen are the targets that must stay: those in status and those of the chaos pods. The
// status of a large disruption does not list all of its targets.
func chosen(d *v1beta1.Disruption, pods []corev1.Pod) map[types.UID]bool {
	uids := make(map[types.UID]bool)
	if byWorker(d) {
		return uids
	}
	for _, kinds := range d.Status.TargetInjections {
		for _, injection := range kinds {
			uids[injection.TargetUID] = true
		}
	}
	for i := range pods {
		uids[types.UID(pods[i].Labels[v1beta1.LabelTargetUID])] = true
	}
	delete(uids, "")
	return uids
}

// lostTargets are chosen targets that are gone, replaced, ending, not running or not
// matching. A target that was ending and is now gone is another change: a chaos pod that
// could not clean it up may then be finalized.
func lostTargets(chosen map[types.UID]bool, targets []target) []string {
	stays := make(map[types.UID]bool, len(targets))
	for _, t := range targets {
		stays[t.uid] = t.stays
	}
	var lost []string
	for uid := range chosen {
		remains, there := stays[uid]
		switch {
		case !there:
			lost = append(lost, "lost "+string(uid))
		case !remains:
			lost = append(lost, "stopping "+string(uid))
		}
	}
	return lost
}

// surplus is how many of the matching targets exceed the wanted percentage.
func surplus(d *v1beta1.Disruption, chosen map[types.UID]bool, targets []target) int {
	if !d.Spec.FollowsShare() || d.Ending() {
		return 0
	}
	matching, staying := 0, 0
	for _, t := range targets {
		if !t.free {
			continue
		}
		matching++
		if chosen[t.uid] {
			staying++
		}
	}
	return max(0, staying-d.Spec.Wanted(matching))
}

// candidates is empty when the workflow chooses no more targets. An on-init pod that was
// chosen and has started still counts, so its start changes nothing.
func candidates(d *v1beta1.Disruption, chosen map[types.UID]bool, targets []target) []string {
	if d.Spec.StaticTargeting && !d.Spec.WaitsForBusy() || d.Ending() {
		return nil
	}
	var uids []string
	for _, t := range targets {
		switch {
		case t.free && t.operated:
			uids = append(uids, "operated "+string(t.uid)) // changes when the operation ends
		case t.free || d.Spec.OnInit && t.stays && chosen[t.uid]:
			uids = append(uids, "candidate "+string(t.uid))
		}
	}
	return uids
}

// changedSpec is the hash of a spec that differs from the one carried out, or empty. A spec
// that no workflow has handled yet has not changed.
func changedSpec(d *v1beta1.Disruption) string {
	current := d.Spec.Hash()
	if d.Status.SpecHash == "" || d.Status.SpecHash == current {
		return ""
	}
	return "spec " + current
}

// hash does not depend on the order within the parts.
func hash(parts ...[]string) string {
	all := slices.Concat(parts...)
	slices.Sort(all)
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	return hex.EncodeToString(sum[:16])
}

// matcher returns a function that selects the targets of spec. It parses the selector once
// and tests it first, because most objects do not match.
func matcher(spec v1beta1.DisruptionSpec) func(metav1.Object) bool {
	selector, err := spec.LabelSelector()
	if err != nil {
		return func(metav1.Object) bool { return false }
	}
	return func(o metav1.Object) bool {
		return selector.Matches(labels.Set(o.GetLabels())) && spec.Matches(o.GetLabels(), o.GetAnnotations())
	}
}
