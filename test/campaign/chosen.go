package campaign

import (
	"encoding/json"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// specOf is a spec as the API server stores it, with what a Disruption has by
// default.
func specOf(spec map[string]any) (v1beta1.DisruptionSpec, error) {
	var d v1beta1.Disruption
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": spec}, &d)
	d.Default()
	return d.Spec, err
}

// matching are the UIDs of the objects that a spec selects: pods, or nodes for a
// spec of level node. A target of any other UID was not chosen. It is worked out
// here with nothing but labels and annotations, so that a defect of the worker's
// own selection is seen.
func matching(spec v1beta1.DisruptionSpec, pods []corev1.Pod, nodes []corev1.Node) (map[types.UID]bool, error) {
	selector := labels.SelectorFromSet(spec.Selector)
	if len(spec.AdvancedSelector) > 0 {
		more, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: spec.AdvancedSelector})
		if err != nil {
			return nil, fmt.Errorf("advancedSelector: %w", err)
		}
		requirements, _ := more.Requirements()
		selector = selector.Add(requirements...)
	}
	chosen := map[types.UID]bool{}
	add := func(o metav1.Object) {
		if spec.Filter != nil {
			for key, value := range spec.Filter.Annotations {
				if o.GetAnnotations()[key] != value {
					return
				}
			}
		}
		if selector.Matches(labels.Set(o.GetLabels())) {
			chosen[o.GetUID()] = true
		}
	}
	if spec.Level == v1beta1.LevelNode {
		for i := range nodes {
			add(&nodes[i])
		}
		return chosen, nil
	}
	for i := range pods {
		add(&pods[i])
	}
	return chosen, nil
}

// injectionOf is the order that a chaos pod has for its injector; false for a pod
// that has none, such as a cleaner.
func injectionOf(pod *corev1.Pod) (injection v1beta1.Injection, found bool) {
	for _, container := range pod.Spec.Containers {
		for _, variable := range container.Env {
			if variable.Name == v1beta1.InjectionEnv {
				return injection, json.Unmarshal([]byte(variable.Value), &injection) == nil
			}
		}
	}
	return injection, false
}

// otherThan lists the parts of an injection that do not follow from a spec; empty
// if all do.
func otherThan(spec v1beta1.DisruptionSpec, injection v1beta1.Injection) string {
	for _, fault := range spec.Requested() {
		if fault.Kind != injection.Kind {
			continue
		}
		document, err := fault.Document()
		if err != nil {
			return err.Error()
		}
		var want, got any
		if err := json.Unmarshal(document, &want); err != nil {
			return err.Error()
		}
		if err := json.Unmarshal(injection.Params, &got); err != nil {
			return err.Error()
		}
		switch {
		case !reflect.DeepEqual(got, want):
			return fmt.Sprintf("parameters %s, want %s", injection.Params, document)
		case injection.DryRun != spec.DryRun:
			return fmt.Sprintf("dryRun %t, want %t", injection.DryRun, spec.DryRun)
		case injection.Level != spec.Level:
			return fmt.Sprintf("level %s, want %s", injection.Level, spec.Level)
		case !reflect.DeepEqual(injection.Pulse, spec.Beats()):
			return fmt.Sprintf("pulse %+v, want %+v", injection.Pulse, spec.Beats())
		}
		return ""
	}
	return fmt.Sprintf("fault %s, which the spec does not have", injection.Kind)
}

// unwanted returns why a chaos pod should not exist: the spec does not select its
// target, or does not ask for its injection. It is empty for a wanted chaos pod,
// and for one without a target, which inspects a node.
func unwanted(spec v1beta1.DisruptionSpec, pod *corev1.Pod, pods []corev1.Pod, nodes []corev1.Node) string {
	if target := pod.Labels[v1beta1.LabelTarget]; target != "" {
		chosen, err := matching(spec, pods, nodes)
		if err != nil {
			return err.Error()
		}
		if uid := types.UID(pod.Labels[v1beta1.LabelTargetUID]); !chosen[uid] {
			return fmt.Sprintf("its target %s (%s) is not selected", target, uid)
		}
	}
	if injection, injects := injectionOf(pod); injects {
		return otherThan(spec, injection)
	}
	return ""
}
