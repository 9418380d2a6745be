//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// whoAskedForIt: a policy judges by who asks, from the API server's webhook to the
// worker's look at the policies.
func whoAskedForIt(t *testing.T) {
	t.Parallel()
	s := newSpace(t)
	s.targets(1)
	s.policy(`[
  {name: by-sre-only, reason: ask them, namespaces: [` + s.name + `], exceptRequesters: {groups: [sre]}}]`)
	const spec = "{selector: {app: target}, count: 1, duration: 5m, " + quick + "}"

	// The API server sees webhook and policy moments after they were made.
	var noted *v1beta1.Disruption
	sue := s.as(t, "sue", "sre")
	eventually(t, func() string {
		d, err := sue.tryCreate("by-sue", spec)
		if err != nil {
			return err.Error()
		}
		if d.Annotations[v1beta1.AnnotationRequester] == "" {
			s.delete(d)
			s.gone(d)
			return "nobody has noted who asked for it"
		}
		noted = d
		return ""
	})
	if got := noted.Annotations[v1beta1.AnnotationRequester]; got != "sue" {
		t.Errorf("it was asked for by %q, want sue", got)
	}
	if got := noted.Annotations[v1beta1.AnnotationRequesterGroups]; !strings.Contains(got, "sre") {
		t.Errorf("her groups are %q, want sre among them", got)
	}
	ann := s.as(t, "ann", "shop")
	eventually(t, func() string {
		d, err := ann.tryCreate("by-ann", spec)
		if err == nil {
			s.delete(d)
			s.gone(d)
			return "a rule refuses what ann asks for, and it was taken"
		}
		for _, want := range []string{"by-sre-only", s.name, "ask them"} {
			if !strings.Contains(err.Error(), want) {
				return "the refusal says nothing of " + want + ": " + err.Error()
			}
		}
		return ""
	})
	// The worker has judged by the same rule when it injects.
	s.delete(s.injected(noted))
	s.gone(noted)
}

// as is the space for another user, with all rights in the cluster.
func (s *space) as(t *testing.T, user string, groups ...string) *space {
	t.Helper()
	other, w := *s, *s.world
	w.config = rest.CopyConfig(s.config)
	w.config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated", "system:masters")}
	kube, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	w.kube, other.world = kube, &w
	return &other
}
