package replacement

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Pods deletes pods of one namespace for their controllers to replace.
type Pods struct {
	Kube      kubernetes.Interface
	Namespace string
	Params    v1beta1.PodReplacement
}

// Deletion is the result for one pod.
type Deletion struct {
	// Gone is true when the pod no longer existed.
	Gone bool
	// Refused is why the pod was not deleted.
	Refused string
	// Claims were deleted; Shared were left because other pods mount them, too.
	Claims, Shared []string
	// Due is when the pod should be gone, at the end of its grace period.
	Due time.Time

	controller types.UID
}

// Users has, by the name of a PersistentVolumeClaim, the pods that mount it.
type Users map[string][]types.UID

// Of returns the claims that a pod mounts, sorted: own are the claims that no other pod
// mounts, shared the others.
func (u Users) Of(pod types.UID) (own, shared []string) {
	for _, claim := range slices.Sorted(maps.Keys(u)) {
		others := slices.ContainsFunc(u[claim], func(uid types.UID) bool { return uid != pod })
		switch {
		case !slices.Contains(u[claim], pod):
		case others:
			shared = append(shared, claim)
		default:
			own = append(own, claim)
		}
	}
	return own, shared
}

// Delete deletes a pod, and before it its storage if Params ask for that. It deletes
// exactly the objects that were read: a pod of the same name is another one. It does
// not wait for the end of the pod. A retry finds the pod ending, or gone.
func (p Pods) Delete(ctx context.Context, target v1beta1.InjectionTarget, users Users) (Deletion, error) {
	for range 10 {
		pod, err := p.Kube.CoreV1().Pods(p.Namespace).Get(ctx, target.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pod.UID != target.UID {
			return Deletion{Gone: true}, nil
		}
		if err != nil {
			return Deletion{}, fmt.Errorf("read pod %s/%s: %w", p.Namespace, target.Name, err)
		}
		if why := kube.Irreplaceable(pod); why != "" {
			return Deletion{Refused: why}, nil
		}
		done, err := p.deleteAsRead(ctx, pod, users)
		if !apierrors.IsConflict(err) {
			return done, err
		}
	}
	return Deletion{}, fmt.Errorf("delete pod %s/%s: it changed ten times while it was to be deleted", p.Namespace, target.Name)
}

// deleteAsRead fails with a conflict when the pod has changed since.
func (p Pods) deleteAsRead(ctx context.Context, pod *corev1.Pod, users Users) (Deletion, error) {
	done := Deletion{controller: metav1.GetControllerOf(pod).UID}
	for _, claim := range p.claims(pod) {
		if slices.ContainsFunc(users[claim], func(uid types.UID) bool { return uid != pod.UID }) {
			done.Shared = append(done.Shared, claim)
			continue
		}
		if err := p.deleteClaim(ctx, claim); err != nil {
			return refusedOr(done, err)
		}
		done.Claims = append(done.Claims, claim)
	}
	grace := p.grace(pod)
	done.Due = time.Now().Add(time.Duration(grace) * time.Second)
	err := p.Kube.CoreV1().Pods(p.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return refusedOr(done, fmt.Errorf("delete pod %s/%s: %w", p.Namespace, pod.Name, err))
	}
	return done, nil
}

// refusedOr turns an error that no retry can fix into a refusal; other errors may not
// occur at the next attempt.
func refusedOr(done Deletion, err error) (Deletion, error) {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return Deletion{Refused: err.Error()}, nil
	}
	return done, err
}

// grace is the grace period of the deletion, in seconds. The period of a pod that is
// being deleted already can only become shorter.
func (p Pods) grace(pod *corev1.Pod) int64 {
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = *own
	}
	if p.Params.GracePeriodSeconds != nil {
		grace = *p.Params.GracePeriodSeconds
	}
	if p.Params.ForceDelete {
		grace = 0
	}
	if pod.DeletionGracePeriodSeconds != nil {
		grace = min(grace, *pod.DeletionGracePeriodSeconds)
	}
	return grace
}

// claims returns the PersistentVolumeClaims to delete with the pod. The claims of
// ephemeral volumes belong to the pod, so Kubernetes deletes them anyway.
func (p Pods) claims(pod *corev1.Pod) []string {
	if p.Params.DeleteStorage != nil && !*p.Params.DeleteStorage {
		return nil
	}
	return claimsOf(pod)
}

func claimsOf(pod *corev1.Pod) (claims []string) {
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil {
			claims = append(claims, volume.PersistentVolumeClaim.ClaimName)
		}
	}
	return claims
}

// deleteClaim deletes a claim, which Kubernetes removes with the last pod that mounts
// it. A claim that is gone is no error.
func (p Pods) deleteClaim(ctx context.Context, name string) error {
	claim, err := p.Kube.CoreV1().PersistentVolumeClaims(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && claim.DeletionTimestamp == nil {
		err = p.Kube.CoreV1().PersistentVolumeClaims(p.Namespace).Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(claim.UID))})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete PersistentVolumeClaim %s/%s: %w", p.Namespace, name, err)
	}
	return nil
}

// Users reads which pods of the namespace mount which claims, in pages. It is empty
// when no storage is to be deleted.
func (p Pods) Users(ctx context.Context) (Users, error) {
	users := Users{}
	if p.Params.DeleteStorage != nil && !*p.Params.DeleteStorage {
		return users, nil
	}
	err := kube.Pages(ctx, p.Kube.CoreV1().Pods(p.Namespace).List, metav1.ListOptions{}, func(page *corev1.PodList) {
		for i := range page.Items {
			pod := &page.Items[i]
			if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
				continue
			}
			for _, claim := range claimsOf(pod) {
				users[claim] = append(users[claim], pod.UID)
			}
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s to see who mounts which claim: %w", p.Namespace, err)
	}
	return users, nil
}

// On returns the UIDs of the namespace's pods on a node, by a live list.
func (p Pods) On(ctx context.Context, node string) (map[types.UID]bool, error) {
	there := map[types.UID]bool{}
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String()}
	err := kube.Pages(ctx, p.Kube.CoreV1().Pods(p.Namespace).List, options, func(page *corev1.PodList) {
		for i := range page.Items {
			there[page.Items[i].UID] = true
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s on node %s: %w", p.Namespace, node, err)
	}
	return there, nil
}

// Matching returns the pods of the namespace that match a selector, by a live list,
// with only the fields that Succeeded needs.
func (p Pods) Matching(ctx context.Context, selector string) ([]corev1.Pod, error) {
	var found []corev1.Pod
	err := kube.Pages(ctx, p.Kube.CoreV1().Pods(p.Namespace).List, metav1.ListOptions{LabelSelector: selector}, func(page *corev1.PodList) {
		for _, pod := range page.Items {
			found = append(found, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID, OwnerReferences: pod.OwnerReferences},
				Spec:       corev1.PodSpec{NodeName: pod.Spec.NodeName},
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("list the pods of namespace %s that match %q: %w", p.Namespace, selector, err)
	}
	return found, nil
}

// Succeeded is true when each of the deleted pods has a successor with a node: its
// controller has as many pods now that were not there before.
func Succeeded(deleted []Deletion, before, now []corev1.Pod) bool {
	missing, old := map[types.UID]int{}, map[types.UID]bool{}
	for _, d := range deleted {
		if !d.Gone && d.Refused == "" {
			missing[d.controller]++
		}
	}
	for i := range before {
		old[before[i].UID] = true
	}
	for i := range now {
		pod := &now[i]
		if controller := metav1.GetControllerOf(pod); controller != nil && !old[pod.UID] && pod.Spec.NodeName != "" {
			missing[controller.UID]--
		}
	}
	for _, n := range missing {
		if n > 0 {
			return false
		}
	}
	return true
}
