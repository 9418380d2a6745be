package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditedUser is who the programs of a test are. The API server writes down
// every request of this user, and of nobody else: so their calls can be told
// from those of the test and of the API server itself.
const auditedUser = "squall"

// auditPolicy leaves out watches, which are counted when they end.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: None
  verbs: [watch]
- level: Metadata
  users: [` + auditedUser + `]
- level: None
`

// StartAudited is Start with the configuration of a second administrator, whose
// requests the API server writes into log, one JSON document a line, before it
// answers them.
func StartAudited(t testing.TB) (config *rest.Config, log string) {
	t.Helper()
	Start(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.audited == nil {
		user, err := shared.server.AddUser(envtest.User{Name: auditedUser, Groups: []string{"system:masters"}}, shared.server.Config)
		if err != nil {
			t.Fatalf("add user %s to the API server: %v", auditedUser, err)
		}
		shared.audited = user.Config()
	}
	return rest.CopyConfig(shared.audited), auditLog(shared.audit)
}

// writeAuditPolicy makes the directory of the audit's policy and log.
func writeAuditPolicy() (directory string, err error) {
	if directory, err = os.MkdirTemp("", "squall-audit-"); err != nil {
		return "", fmt.Errorf("make a directory for the audit log: %w", err)
	}
	if err := os.WriteFile(policyFile(directory), []byte(auditPolicy), 0o600); err != nil {
		return "", fmt.Errorf("write the audit policy: %w", err)
	}
	return directory, nil
}

func policyFile(directory string) string { return filepath.Join(directory, "policy.yaml") }

func auditLog(directory string) string { return filepath.Join(directory, "audit.log") }
