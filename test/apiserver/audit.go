package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// auditedGroup is the group whose requests the API server logs, every one of them
// and no other. The log so separates the calls of a test's programs from those of
// the test and of the API server itself.
const auditedGroup = "audited"

// auditPolicy leaves out watches, which are counted when they end.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: None
  verbs: [watch]
- level: Metadata
  userGroups: [` + auditedGroup + `]
- level: None
`

// StartAudited is Start with the configuration of another administrator, whose
// requests the API server writes into log, one JSON document a line with the name of
// the user, before it answers them.
func StartAudited(t testing.TB, user string) (config *rest.Config, log string) {
	t.Helper()
	Start(t)
	shared.Lock()
	defer shared.Unlock()
	added, err := shared.server.AddUser(envtest.User{Name: user, Groups: []string{"system:masters", auditedGroup}}, shared.server.Config)
	if err != nil {
		t.Fatalf("add user %s to the API server: %v", user, err)
	}
	return added.Config(), auditLog(shared.audit)
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
