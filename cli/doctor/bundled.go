package doctor

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/cli/cluster"
)

// bundled is the name of the Temporal that Squall's chart and manifests install.
const (
	bundled     = "bundled temporal"
	bundledName = "squall-temporal"
)

// examineBundled warns about the Temporal that Squall installs. There is no finding
// where it is not installed.
func examineBundled(ctx context.Context, c *cluster.Client, system string) []Finding {
	installed, err := c.Kube.AppsV1().StatefulSets(system).Get(ctx, bundledName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return []Finding{{bundled, Warn, "cannot read it: " + err.Error(), "ask for the right to get statefulsets in namespace " + system}}
	}
	return []Finding{judgeBundled(installed)}
}

// judgeBundled warns in each case: nothing but a NetworkPolicy protects this Temporal.
func judgeBundled(installed *appsv1.StatefulSet) Finding {
	text := fmt.Sprintf("%s/%s has no authentication: any pod that reaches its port 7233 can end disruptions and release stuck ones. Only a NetworkPolicy keeps other pods away, and your CNI must enforce it",
		installed.Namespace, installed.Name)
	way := "for production, use a Temporal with authentication (chart value temporal.address); helm test checks whether the CNI enforces the NetworkPolicy"
	for _, volume := range installed.Spec.Template.Spec.Volumes {
		if volume.Name == "data" && volume.EmptyDir != nil {
			text += ". Its storage is an emptyDir: a drain of its node loses all workflows, running disruptions are cleaned up, and their history is gone"
			way += "; until then set the chart value temporal.bundled.storage, such as 2Gi"
		}
	}
	return Finding{bundled, Warn, text, way}
}

// Isolation judges a connection to Temporal from a pod that must not reach it. unresolved
// is the error of looking up its name, unreached that of the connection; nil means that
// Temporal answered.
func Isolation(address string, unresolved, unreached error) Finding {
	const what = "isolation"
	switch {
	case unresolved != nil:
		return Finding{what, Fail, fmt.Sprintf("cannot find out whether %s is reachable: %v", address, unresolved), "check the cluster's DNS, then run helm test again"}
	case unreached == nil:
		return Finding{what, Fail, fmt.Sprintf("%s answers this pod, which is not part of Squall. The CNI does not enforce the NetworkPolicy %s, so any pod can end disruptions and release stuck ones", address, bundledName),
			"use a CNI that enforces NetworkPolicies, or a Temporal with authentication (chart value temporal.address); temporal.bundled.testIsolation=false skips this test"}
	}
	return Finding{what, OK, fmt.Sprintf("%s does not answer this pod, which is no part of Squall: %v", address, unreached), ""}
}
