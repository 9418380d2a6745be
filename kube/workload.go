package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Release identifies a release of a workload: hashes of the containers of its pod
// template, which reveal nothing of them. Labels, annotations and replicas do not
// count.
type Release struct {
	Containers, InitContainers string
}

// Workload is the common part of a Deployment and a StatefulSet.
type Workload struct {
	Selector *metav1.LabelSelector
	Release  Release
	// RolledOut is true when all its pods are of its present template and available; until
	// then Waits is what is missing.
	RolledOut bool
	Waits     string
}

// DeploymentWorkload is d as a workload.
func DeploymentWorkload(d *appsv1.Deployment) Workload {
	s := d.Status
	w := Workload{Selector: d.Spec.Selector, Release: ReleaseOf(d.Spec.Template.Spec)}
	w.RolledOut, w.Waits = rolledOut(d.Generation == s.ObservedGeneration, wanted(d.Spec.Replicas), s.UpdatedReplicas, s.AvailableReplicas, s.Replicas)
	return w
}

// StatefulSetWorkload is s as a workload.
func StatefulSetWorkload(set *appsv1.StatefulSet) Workload {
	s := set.Status
	updated := s.UpdatedReplicas
	if s.CurrentRevision == s.UpdateRevision {
		updated = s.Replicas // a StatefulSet counts no updated pods after the update
	}
	w := Workload{Selector: set.Spec.Selector, Release: ReleaseOf(set.Spec.Template.Spec)}
	w.RolledOut, w.Waits = rolledOut(set.Generation == s.ObservedGeneration, wanted(set.Spec.Replicas), updated, s.AvailableReplicas, s.Replicas)
	return w
}

// ReleaseOf hashes the containers of a pod template.
func ReleaseOf(pod corev1.PodSpec) Release {
	return Release{Containers: hashOf(pod.Containers), InitContainers: hashOf(pod.InitContainers)}
}

func hashOf(containers []corev1.Container) string {
	text, err := json.Marshal(containers)
	if err != nil {
		return "" // containers are always JSON
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func wanted(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// rolledOut judges the numbers of a workload. A workload that wants no pods has none to
// disrupt, so it is not rolled out.
func rolledOut(observed bool, want, updated, available, all int32) (bool, string) {
	switch {
	case !observed:
		return false, "its controller has not seen the change"
	case want == 0:
		return false, "it is scaled to 0"
	case updated < want || available < want || all > want:
		return false, fmt.Sprintf("of %d pods wanted %d are of the new template, %d are available, and there are %d", want, updated, available, all)
	}
	return true, ""
}
