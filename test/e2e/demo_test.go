//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/cli/demo"
)

// TestDemo shows a newcomer's first fault: requests are slow during the fault
// alone, none fails, there is no warning, and nothing is left. It compares
// response times, so no other test runs beside it.
func TestDemo(t *testing.T) {
	w := start(t)
	const squall = "../../bin/squall"
	if _, err := os.Stat(squall); err != nil {
		t.Skip("make build: ", err)
	}
	var out, problems bytes.Buffer
	command := exec.CommandContext(t.Context(), squall, "demo", "--seconds", "5")
	command.Stdout, command.Stderr = &out, &problems
	err := command.Run()
	t.Logf("%s\n%s", out.String(), problems.String())
	if err != nil {
		t.Fatal(err)
	}
	slow := map[string]int{}
	for line := range strings.Lines(out.String()) {
		var when string
		var requests, failed, median, percentile int
		if n, _ := fmt.Sscanf(line, "%s %d %d %d ms %d ms", &when, &requests, &failed, &median, &percentile); n == 5 {
			slow[when] = percentile
			if requests == 0 || failed > 0 {
				t.Errorf("%s: %d of %d requests failed, want none", when, failed, requests)
			}
		}
	}
	if slow["during"] < 250 || slow["before"] >= slow["during"] || slow["after"] >= slow["during"] || len(slow) != 3 {
		t.Errorf("95th percentiles %v ms, want 300 or more during the fault alone", slow)
	}
	if strings.Contains(problems.String(), "Warning") {
		t.Error("the demo warns")
	}
	if _, err := w.kube.CoreV1().Namespaces().Get(t.Context(), demo.Namespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("namespace %s is left: %v", demo.Namespace, err)
	}
}
