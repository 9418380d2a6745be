package scale

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// program is a child process of the test.
type program struct {
	t    *testing.T
	name string
	path string
	args []string
	env  []string

	command *exec.Cmd
	done    chan struct{}
	said    bytes.Buffer
}

// start runs the program until the test ends or kill is called.
func (p *program) start() *program {
	p.t.Helper()
	p.command = exec.Command(p.path, p.args...)
	p.command.Env = append(os.Environ(), p.env...)
	p.command.Stdout, p.command.Stderr = &p.said, &p.said
	if err := p.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	command, done := p.command, make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		_ = command.Wait() // it is killed: how it ended says nothing
	}()
	p.t.Cleanup(func() {
		p.kill()
		if p.t.Failed() {
			p.t.Logf("the end of what %s said:\n%s", p.name, last(p.said.String(), 4000))
		}
	})
	return p
}

// kill is SIGKILL; killing it again does nothing.
func (p *program) kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

func last(s string, n int) string { return s[max(0, len(s)-n):] }

// build compiles the programs that are shipped.
func build(t *testing.T, names ...string) (directory string) {
	t.Helper()
	directory = t.TempDir()
	args := []string{"build", "-o", directory + "/"}
	for _, name := range names {
		args = append(args, "./"+name)
	}
	command := exec.Command("go", args...)
	command.Dir = filepath.Join("..", "..")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return directory
}

// kubeconfigFile leads another process to the test's API server.
func kubeconfigFile(t *testing.T, config *rest.Config) string {
	t.Helper()
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"test": {Server: host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"test": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
