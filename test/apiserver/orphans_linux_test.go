package apiserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/test/apiserver"
	"github.com/squall-chaos/squall/test/patience"
)

const waits = "SQUALL_TEST_WAITS"

// TestServerOfAProgramThatWaits is the program that the next test kills.
func TestServerOfAProgramThatWaits(t *testing.T) {
	if os.Getenv(waits) == "" {
		return
	}
	fmt.Printf("%s\n", apiserver.Start(t).Host)
	select {}
}

// A test program that is killed takes its API server and etcd with it.
func TestAKilledTestLeavesNoServer(t *testing.T) {
	apiserver.Start(t) // or skip
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(self, "-test.run=^TestServerOfAProgramThatWaits$")
	killed.Env = append(os.Environ(), waits+"=true")
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = killed.Process.Kill(); _ = killed.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse(strings.TrimSpace(line))
	if err != nil || address.Port() == "" {
		t.Fatalf("the program printed %q, %v, want the address of its API server", line, err)
	}
	port := "--secure-port=" + address.Port()
	if left := commands(t, port); len(left) != 1 {
		t.Fatalf("processes with %s: %q, want the API server", port, left)
	}
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	patience.Within(t, 20*time.Second, "the API server is gone", func() error {
		if left := commands(t, port); len(left) > 0 {
			return errors.New("it runs: " + left[0])
		}
		return nil
	})
}

// commands are the command lines on this machine that have a word.
func commands(t *testing.T, word string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range all {
		line, _ := os.ReadFile(file) // nothing of one that has ended
		if command := strings.ReplaceAll(string(line), "\x00", " "); strings.Contains(command, word+" ") {
			found = append(found, command)
		}
	}
	return found
}
