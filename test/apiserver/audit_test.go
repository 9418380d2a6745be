package apiserver_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/squall-chaos/squall/test/apiserver"
)

func TestOnlyAuditedUsersAreWrittenDown(t *testing.T) {
	audited, log := apiserver.StartAudited(t, "someone")
	for _, who := range []struct {
		config    *rest.Config
		namespace string
	}{{apiserver.Start(t), "administrator"}, {audited, "program"}} {
		kube, err := kubernetes.NewForConfig(who.config)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := kube.CoordinationV1().Leases(who.namespace).List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(content), "\n"); n != 1 || !strings.Contains(string(content), `"namespace":"program"`) || !strings.Contains(string(content), `"username":"someone"`) {
		t.Errorf("the audit log has %d lines, want the one of the audited user:\n%s", n, content)
	}
}
