package podops

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/squall-chaos/squall/crdbridge/scope"
	"github.com/squall-chaos/squall/kube/podops"
)

// deletion makes the next write, if there is one, for a requested deletion of the pod.
func (r *reconciler) deletion(ctx context.Context, pod *corev1.Pod) (acted bool, err error) {
	patch, remove := podops.NextOfDeletion(pod, r.now())
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	switch {
	case remove:
		seen := client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		return true, written(ctx, r.live, pod, r.client.Delete(ctx, to, seen))
	case patch != nil:
		return true, written(ctx, r.live, pod, r.client.Patch(ctx, to, client.RawPatch(types.MergePatchType, patch)))
	}
	return false, nil
}

// deletions answers the API server about each DELETE of a managed pod.
type deletions struct {
	driver     *reconciler
	namespaces scope.Namespaces
	// acts is true if only API servers can call. The API server has then authorised the
	// user to delete the pod. Other clients could name any pod and any user.
	acts bool
}

// Handle refuses a deletion that has to wait. If it acts, it marks the pod, and the driver
// begins. Otherwise the refusal has the command that marks it; programs cannot read that,
// so their deletions pass. If marking fails, Handle allows the deletion: it would be
// refused for ever otherwise.
func (d deletions) Handle(ctx context.Context, request admission.Request) admission.Response {
	// the driver moves no pods of other namespaces
	pod, err := d.namespaces.Pod(request, admissionv1.Delete)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod == nil || forced(request.Options.Raw) {
		return admission.Allowed("")
	}
	awaits := podops.DeletionAwaits(pod)
	if awaits == "" {
		return admission.Allowed("")
	}
	there, err := d.driver.kuperator(ctx)
	if there {
		return admission.Allowed("")
	}
	if err == nil && !podops.ToBeDeleted(pod) {
		if !d.acts {
			return unnoted(pod, request.UserInfo.Username)
		}
		if request.DryRun == nil || !*request.DryRun {
			err = d.note(ctx, pod)
		}
	}
	if apierrors.IsNotFound(err) {
		return admission.Allowed("")
	}
	if err != nil {
		return admission.Allowed("").WithWarnings("squall: the pod is deleted without being taken out of service first: " + err.Error())
	}
	return admission.Denied(fmt.Sprintf("pod deletion process is underway and being managed by PodOpsLifecycle: pod %s/%s is deleted once it is out of service; "+
		"it waits for: %s. To keep the pod remove its label %s; to delete it at once use --force --grace-period=0", pod.Namespace, pod.Name, awaits, podops.LabelToDelete))
}

// unnoted is the answer to a deletion that the bridge does not mark on the pod.
func unnoted(pod *corev1.Pod, user string) admission.Response {
	if slices.ContainsFunc([]string{"system:serviceaccount:", "system:node:", "system:kube-"}, func(prefix string) bool { return strings.HasPrefix(user, prefix) }) {
		return admission.Allowed("").WithWarnings("squall: the pod is deleted without being taken out of service first: the setting webhook-client-ca is empty")
	}
	return admission.Denied(fmt.Sprintf("pod %s/%s is in service. To take it out of service and delete it: "+
		"kubectl -n %s label pod %s %s=true. To delete it at once use --force --grace-period=0", pod.Namespace, pod.Name, pod.Namespace, pod.Name, podops.LabelToDelete))
}

func (d deletions) note(ctx context.Context, pod *corev1.Pod) error {
	to := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return d.driver.client.Patch(ctx, to, client.RawPatch(types.MergePatchType, podops.WantDeletion(pod.UID, d.driver.now())))
}

// forced is true for a deletion that gives the pod no time. Users request it, the kubelet
// does when the containers have ended, and so does the collector of pods whose node is
// gone.
func forced(options []byte) bool {
	var o metav1.DeleteOptions
	return json.Unmarshal(options, &o) == nil && o.GracePeriodSeconds != nil && *o.GracePeriodSeconds == 0
}
