// Package replacement moves pods to other nodes: it cordons a node, deletes pods there,
// and uncordons the node. It keeps no memory. A cordon carries the mark of its
// disruption from the patch that creates it, so any later activity can remove it. A
// cordon of anyone else is left alone.
package replacement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
)

// Cordons creates and finds cordons of disruptions.
type Cordons struct{ Kube kubernetes.Interface }

// Cordon keeps new pods away from a node and marks that the disruption wants that. It
// does not change a node that another user cordoned, and ignores a missing node. You may
// call it twice.
func (c Cordons) Cordon(ctx context.Context, node string, ref v1beta1.DisruptionRef) error {
	err := c.change(ctx, node, func(n *corev1.Node) map[string]any { return cordoned(n, ref) })
	if err != nil {
		return fmt.Errorf("cordon node %s: %w", node, err)
	}
	return nil
}

// Uncordon removes the disruption's mark from a node, and the cordon if no other
// disruption wants it. A node that is missing or lacks the mark is no error.
func (c Cordons) Uncordon(ctx context.Context, node string, uid types.UID) error {
	err := c.change(ctx, node, func(n *corev1.Node) map[string]any { return uncordoned(n, uid) })
	if err != nil {
		return fmt.Errorf("uncordon node %s: %w", node, err)
	}
	return nil
}

// CordonInTurn cordons the node as Cordon does, unless disruptions already keep most
// other nodes of the cluster cordoned: then it returns these and leaves the node as it
// is. Of two disruptions that cordon at the same time at least one sees the other,
// because both list the nodes after they have cordoned. A disruption that sees too many
// uncordons its node. A node that carries the disruption's mark already had its turn.
func (c Cordons) CordonInTurn(ctx context.Context, node string, ref v1beta1.DisruptionRef, most int) (others []*corev1.Node, err error) {
	others, marked, err := c.othersThan(ctx, node, ref.UID)
	if err != nil || marked {
		return nil, err
	}
	if len(others) >= most {
		return others, nil
	}
	if err := c.Cordon(ctx, node, ref); err != nil {
		return nil, err
	}
	others, _, err = c.othersThan(ctx, node, ref.UID)
	switch {
	case err != nil:
		return nil, errors.Join(err, c.Uncordon(ctx, node, ref.UID))
	case len(others) >= most:
		return others, c.Uncordon(ctx, node, ref.UID)
	}
	return nil, nil
}

// othersThan returns, by a live list, the other nodes that carry marks, and whether the
// node carries the disruption's.
func (c Cordons) othersThan(ctx context.Context, node string, uid types.UID) (others []*corev1.Node, marked bool, err error) {
	err = c.each(ctx, func(n *corev1.Node) {
		switch {
		case n.Name == node:
			marked = Marked(n, uid)
		case len(Marks(n)) > 0:
			others = append(others, n)
		}
	})
	return others, marked, err
}

// Of returns the names of the nodes that carry the disruption's mark, by a live list.
func (c Cordons) Of(ctx context.Context, uid types.UID) ([]string, error) {
	var names []string
	err := c.each(ctx, func(n *corev1.Node) {
		if Marked(n, uid) {
			names = append(names, n.Name)
		}
	})
	return names, err
}

// each calls f for the nodes that disruptions keep cordoned, by a live list.
func (c Cordons) each(ctx context.Context, f func(*corev1.Node)) error {
	err := kube.Pages(ctx, c.Kube.CoreV1().Nodes().List, metav1.ListOptions{LabelSelector: v1beta1.LabelCordoned}, func(page *corev1.NodeList) {
		for i := range page.Items {
			f(&page.Items[i])
		}
	})
	if err != nil {
		return fmt.Errorf("list the cordoned nodes: %w", err)
	}
	return nil
}

// change patches a node as it was read. After a conflict it reads the node again.
func (c Cordons) change(ctx context.Context, name string, wanted func(*corev1.Node) map[string]any) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		patch := wanted(node)
		if patch == nil {
			return nil
		}
		document, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		_, err = c.Kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, document, metav1.PatchOptions{})
		return err
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Marks returns the disruptions that want the node cordoned, in the order of their
// UIDs.
func Marks(node *corev1.Node) []v1beta1.DisruptionRef {
	var refs []v1beta1.DisruptionRef
	for key, value := range node.Annotations {
		if uid, ours := strings.CutPrefix(key, v1beta1.AnnotationCordon); ours {
			namespace, name, _ := strings.Cut(value, "/")
			refs = append(refs, v1beta1.DisruptionRef{Namespace: namespace, Name: name, UID: types.UID(uid)})
		}
	}
	slices.SortFunc(refs, func(a, b v1beta1.DisruptionRef) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return refs
}

// Marked reports whether the disruption wants the node cordoned.
func Marked(node *corev1.Node, uid types.UID) bool {
	return slices.ContainsFunc(Marks(node), func(ref v1beta1.DisruptionRef) bool { return ref.UID == uid })
}

// cordoned returns the patch that cordons a node for a disruption: mark and cordon in
// one. It is nil when there is nothing to do, or when anyone else cordoned the node.
func cordoned(node *corev1.Node, ref v1beta1.DisruptionRef) map[string]any {
	if Marked(node, ref.UID) || node.Spec.Unschedulable && len(Marks(node)) == 0 {
		return nil
	}
	return guarded(node, "true", map[string]any{v1beta1.AnnotationCordon + string(ref.UID): ref.Namespace + "/" + ref.Name},
		map[string]any{"unschedulable": true})
}

// uncordoned returns the patch that removes the disruption's mark, and with the last
// mark the cordon. It is nil when there is no mark.
func uncordoned(node *corev1.Node, uid types.UID) map[string]any {
	marks := Marks(node)
	if !Marked(node, uid) {
		return nil
	}
	mark := map[string]any{v1beta1.AnnotationCordon + string(uid): nil}
	if len(marks) > 1 {
		return guarded(node, "true", mark, nil)
	}
	return guarded(node, nil, mark, map[string]any{"unschedulable": nil})
}

// guarded returns a merge patch for exactly the version of the node that was read.
func guarded(node *corev1.Node, label any, annotations, spec map[string]any) map[string]any {
	patch := map[string]any{"metadata": map[string]any{
		"uid": node.UID, "resourceVersion": node.ResourceVersion,
		"labels": map[string]any{v1beta1.LabelCordoned: label}, "annotations": annotations,
	}}
	if spec != nil {
		patch["spec"] = spec
	}
	return patch
}

// MayCordon is true for a disruption that the worker carries out, and for one whose record
// is lost.
func MayCordon(d *v1beta1.Disruption) bool {
	return d == nil || d.Spec.Kinds().By() == v1beta1.ByWorker
}
