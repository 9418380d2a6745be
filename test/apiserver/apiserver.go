// Package apiserver gives a test a real Kubernetes API server: etcd and
// kube-apiserver as processes of the test, with Squall's CRDs installed. There
// is no kubelet and no controller, so pods stay as the test writes them.
//
// A package shares one server:
//
//	func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		config := apiserver.Start(t)
//
// The server starts with the first Start and ends with Run, so a package whose
// tests are all skipped or filtered out pays nothing.
package apiserver

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// startTimeout is generous: a busy machine of two cores has taken 20 s.
const startTimeout = 90 * time.Second

// shared is the one server of a test binary. Tests cannot hand a value to each
// other except through their package.
var shared struct {
	sync.Mutex
	running bool // Run is waiting to stop the server
	server  *envtest.Environment
	audit   string // directory of the audit's policy and log, and of the client certificate
	alive   io.Closer
	err     error
}

// Run runs the tests of a package, then stops the server they started, if any.
// It returns the exit code. Call it from TestMain, before anything else. A test program
// that is killed leaves no server: see leaveNoOrphans. m is a *testing.M, or
// temporalserver.Tests.
func Run(m interface{ Run() int }) int {
	if processes, set := os.LookupEnv(processesVariable); set {
		return endOrphans(processes)
	}
	shared.Lock()
	shared.running = true
	shared.Unlock()
	code := m.Run()
	defer func() { _ = os.RemoveAll(shared.audit) }()
	if shared.server == nil {
		return code
	}
	if err := shared.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
		return max(code, 1)
	}
	return code
}

// Start returns the administrator's configuration of the package's API server
// and starts it if it does not run yet, which takes some three seconds. The
// configuration is the caller's own copy. Objects are shared by the tests of a
// package, so use a namespace per test.
//
// Without binaries the test is skipped with the reason, or fails when
// SQUALL_REQUIRE=1. See Binaries.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	directory, err := Binaries()
	if err != nil && os.Getenv("SQUALL_REQUIRE") == "1" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	shared.Lock()
	defer shared.Unlock()
	if !shared.running {
		t.Fatal("nobody would stop the API server: add func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }")
	}
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start(directory)
	}
	if shared.err != nil {
		t.Fatalf("start the API server from %s: %v", directory, shared.err)
	}
	return rest.CopyConfig(shared.server.Config)
}

func start(binaries string) (*envtest.Environment, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	no := false
	server := &envtest.Environment{
		UseExistingCluster:       &no, // never an existing cluster, whatever the environment has
		BinaryAssetsDirectory:    binaries,
		CRDDirectoryPaths:        []string{filepath.Join(root, "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: startTimeout,
		ControlPlaneStopTimeout:  startTimeout,
	}
	server.ControlPlane.GetAPIServer().Path = filepath.Join(binaries, apiserverBinary)
	if shared.audit, err = writeAuditPolicy(); err != nil {
		return nil, err
	}
	admission, err := writeClient(shared.audit)
	if err != nil {
		return nil, err
	}
	server.ControlPlane.GetAPIServer().Configure().
		Set("admission-control-config-file", admission).
		Set("audit-policy-file", policyFile(shared.audit)).
		Set("audit-log-path", auditLog(shared.audit)).
		Set("audit-log-maxsize", "100000") // it is read from where it was left, so it must not begin again
	server.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(binaries, etcdBinary)}
	// The detector of writes to caches would inspect the server's own cache every
	// second.
	const detector = "KUBE_CACHE_MUTATION_DETECTOR"
	if value, set := os.LookupEnv(detector); set {
		_ = os.Unsetenv(detector)
		defer os.Setenv(detector, value)
	}
	if _, err := server.Start(); err != nil {
		// A server that came up but refused our CRDs would outlive the test.
		_ = server.Stop()
		return nil, err
	}
	if err := leaveNoOrphans(); err != nil {
		_ = server.Stop()
		return nil, fmt.Errorf("watch the API server: %w", err)
	}
	return server, nil
}

// moduleRoot is the nearest directory above the test with a go.mod.
func moduleRoot() (string, error) {
	directory, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(directory, "go.mod")); err == nil {
			return directory, nil
		}
		parent := filepath.Dir(directory)
		if parent == directory {
			return "", fmt.Errorf("no go.mod above the test: cannot find deploy/crds")
		}
		directory = parent
	}
}
