package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// action is .github/actions/run/action.yml, as far as the tests use it.
type action struct {
	Inputs map[string]struct {
		Required bool
		Default  *string
	}
	Runs struct {
		Steps []struct {
			ID, Run, Shell, Uses string
			Env                  map[string]string
		}
	}
}

// decoded reads a file of YAML.
func decoded(t *testing.T, path string, into any) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return string(text)
}

// pipeline is a directory in which the script of a pipeline runs, with a squall that
// writes its arguments and ends with a code. If it waits, it does so after SIGTERM.
type pipeline struct {
	*testing.T
	dir string
	env []string
}

func newPipeline(t *testing.T, code int, waits bool, env ...string) *pipeline {
	t.Helper()
	dir := t.TempDir()
	stub := fmt.Sprintf("#!/bin/bash\nprintf '%%s\\n' \"$@\" > args\ncp \"$KUBECONFIG\" kubeconfig-seen 2> /dev/null\nexit %d\n", code)
	if waits {
		stub = fmt.Sprintf("#!/bin/bash\ntrap 'sleep 0.3; touch cleaned; exit %d' TERM\ntouch begun\nwhile :; do sleep 0.05; done\n", code)
	}
	if err := os.WriteFile(filepath.Join(dir, "squall"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	return &pipeline{t, dir, append([]string{"PATH=" + dir + ":" + os.Getenv("PATH")}, env...)}
}

func (p *pipeline) start(script string) *exec.Cmd {
	p.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = p.dir, p.env
	if err := cmd.Start(); err != nil {
		p.Fatal(err)
	}
	return cmd
}

// ends wants the script to end with a code.
func (p *pipeline) ends(cmd *exec.Cmd, code int) {
	p.Helper()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.Errorf("exit code = %d, want %d", got, code)
	}
}

func (p *pipeline) wrote(name string) string {
	p.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil {
		p.Fatal(err)
	}
	return string(text)
}

// The action hands its inputs to squall, keeps the kubeconfig no longer than needed, and
// ends as squall does, also when the job is cancelled.
func TestActionForGitHub(t *testing.T) {
	var a action
	text := decoded(t, "../.github/actions/run/action.yml", &a)
	used := map[string]bool{}
	for _, input := range regexp.MustCompile(`inputs\.([a-z-]+)`).FindAllStringSubmatch(text, -1) {
		used[input[1]] = true
	}
	declared, run := map[string]bool{}, ""
	for name, input := range a.Inputs {
		declared[name] = true
		if !input.Required && input.Default == nil {
			t.Errorf("input %s is neither required nor has a default", name)
		}
	}
	if diff := cmp.Diff(declared, used); diff != "" {
		t.Errorf("inputs (-declared +used):\n%s", diff)
	}
	for _, step := range a.Runs.Steps {
		if step.ID == "run" {
			run = step.Run
		}
		switch {
		case step.Run != "" && step.Shell != "bash":
			t.Errorf("a step has the shell %q", step.Shell)
		case step.Uses != "" && !regexp.MustCompile(`@[0-9a-f]{40}$`).MatchString(step.Uses):
			t.Errorf("%s is no commit", step.Uses)
		case strings.Contains(step.Run, "${{"):
			t.Errorf("a script holds an expression, so that an input could be a command:\n%s", step.Run)
		}
	}
	env := func(kubeconfig, namespace string) []string {
		return []string{"MANIFEST=a b.yaml", "NAMESPACE=" + namespace, "KUBECONFIG_CONTENT=" + kubeconfig, "TIMEOUT=1m", "REPORTS=out", "RUNNER_TEMP=.", "GITHUB_OUTPUT=output"}
	}
	t.Run("ends as squall does", func(t *testing.T) {
		p := newPipeline(t, 3, false, env("secret", "staging")...)
		p.ends(p.start(run), 3)
		want := strings.Join([]string{"run", "a b.yaml", "--replace", "--namespace", "staging", "--report", "junit=out/squall.xml",
			"--report", "json=out/squall.json", "--report", "html=out/squall.html", ""}, "\n")
		if diff := cmp.Diff(want, p.wrote("args")); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
		if got := p.wrote("output"); got != "exit-code=3\n" {
			t.Errorf("outputs = %q", got)
		}
		if got := p.wrote("kubeconfig-seen"); got != "secret" {
			t.Errorf("kubeconfig = %q", got)
		}
		if _, err := os.Stat(filepath.Join(p.dir, "squall.kubeconfig")); !os.IsNotExist(err) {
			t.Errorf("the kubeconfig is left: %v", err)
		}
	})
	t.Run("without a namespace and a kubeconfig", func(t *testing.T) {
		p := newPipeline(t, 0, false, env("", "")...)
		p.ends(p.start(run), 0)
		if got := p.wrote("args"); strings.Contains(got, "--namespace") {
			t.Errorf("arguments = %q", got)
		}
	})
	t.Run("a cancelled job waits for the clean-up", func(t *testing.T) {
		p := newPipeline(t, 4, true, env("", "")...)
		cmd := p.start(run)
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(p.dir, "begun")); err == nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("squall did not begin")
			}
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		p.ends(cmd, 4)
		p.wrote("cleaned")
	})
}

func TestTemplateForGitLab(t *testing.T) {
	var template map[string]struct {
		Script    []string
		Artifacts struct{ Reports struct{ JUnit string } }
	}
	decoded(t, "../deploy/pipelines/gitlab.yaml", &template)
	job := template[".squall"]
	p := newPipeline(t, 5, false, "SQUALL_MANIFEST=chaos.yaml", "SQUALL_TIMEOUT=1m", "SQUALL_NAMESPACE=staging")
	p.ends(p.start(strings.Join(job.Script, "\n")), 5)
	if got := p.wrote("args"); !strings.Contains(got, "run\nchaos.yaml\n") || !strings.Contains(got, "junit="+job.Artifacts.Reports.JUnit+"\n") || !strings.Contains(got, "--namespace\nstaging\n") {
		t.Errorf("arguments = %q", got)
	}
}

// The account of pipelines has roles that Squall ships.
func TestAccountForPipelines(t *testing.T) {
	account, err := os.ReadFile("../deploy/pipelines/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	roles, err := os.ReadFile("../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bsquall-[a-z-]+`).FindAllString(string(account), -1)
	for _, name := range named {
		if !strings.Contains(string(roles), "\n  name: "+name+"\n") {
			t.Errorf("deploy/rbac.yaml has no ClusterRole %s", name)
		}
	}
	if len(named) < 2 {
		t.Errorf("roles = %v, want two or more", named)
	}
}

// kubeconfig.sh writes the account's token and the cluster, and nothing of its user.
func TestKubeconfigForPipelines(t *testing.T) {
	p := newPipeline(t, 0, false)
	kubectl := "#!/bin/bash\ncase \"$*\" in\n*'create token chaos-ci'*) printf the-token ;;\n*.cluster.server*) printf https://shop:6443 ;;\n*authority*) printf Y2E= ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(p.dir, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../deploy/pipelines/kubeconfig.sh")
	if err != nil {
		t.Fatal(err)
	}
	p.ends(p.start("sh "+script+" staging chaos-ci > written"), 0)
	var written struct {
		Users []struct{ User struct{ Token string } }
	}
	decoded(t, filepath.Join(p.dir, "written"), &written)
	if len(written.Users) != 1 || written.Users[0].User.Token != "the-token" || !strings.Contains(p.wrote("written"), "https://shop:6443") {
		t.Errorf("kubeconfig:\n%s", p.wrote("written"))
	}
}
