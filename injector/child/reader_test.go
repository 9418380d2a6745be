//go:build linux

package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
	"github.com/squall-chaos/squall/test/testneeds"
)

const readCommand = "read"

// circumstances describe the environment of a reading process.
type circumstances struct {
	Rights string // why the process is not powerless
	Env    []string
	Netns  string
	File   string // the content of the inherited file
}

// readAs is the process of these tests. The question names what it does.
func readAs() error {
	return Reply(func(task string) any {
		switch task {
		case "flood":
			for {
				fmt.Println(strings.Repeat("x", 1<<16))
			}
		case "complain":
			fmt.Fprintf(os.Stderr, "broken \x1b]0;title\x07\n%s", strings.Repeat("x", 1<<16))
			os.Exit(1)
		case "hang":
			time.Sleep(time.Hour)
		}
		found := circumstances{Env: os.Environ()}
		if err := testcontainer.Powerless(os.Getpid()); err != nil {
			found.Rights = err.Error()
		}
		found.Netns, _ = os.Readlink("/proc/self/ns/net")
		content, _ := io.ReadAll(os.NewFile(watchedFD, "inherited"))
		found.File = string(content)
		return found
	})
}

// ask sends a question to a process in the network namespace of this one.
func ask(t *testing.T, ctx context.Context, task string) (circumstances, error) {
	t.Helper()
	testneeds.BeRoot(t)
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("inherited"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var found circumstances
	err = Reader{Command: readCommand, Netns: "/proc/self/ns/net", MaxAnswer: 1 << 10, Files: []*os.File{file}}.Ask(ctx, task, &found)
	return found, err
}

// rule S22
func TestReaderHasNoRights(t *testing.T) {
	t.Setenv("SECRET", "of the injector")
	found, err := ask(t, t.Context(), "look")
	if err != nil {
		t.Fatal(err)
	}
	netns, _ := os.Readlink("/proc/self/ns/net")
	if found.Rights != "" || len(found.Env) > 0 || found.Netns != netns || found.File != "inherited" {
		t.Errorf("Ask() = %+v, want no rights, no environment, the network namespace %s and the file", found, netns)
	}
	err = target.InNewNetns(func(path string) error {
		var elsewhere circumstances
		err := Reader{Command: readCommand, Netns: path, MaxAnswer: 1 << 10}.Ask(t.Context(), "look", &elsewhere)
		if elsewhere.Netns == netns {
			t.Errorf("the process is in the network namespace %s of the injector, want another one", netns)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestReaderIsBounded(t *testing.T) {
	hurry, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	for _, test := range []struct {
		task, want string
		ctx        context.Context
	}{
		{"flood", "", t.Context()},
		{"complain", ": broken \ufffd]0;title\ufffd; xxx", t.Context()},
		{"hang", context.DeadlineExceeded.Error(), hurry},
	} {
		t.Run(test.task, func(t *testing.T) {
			_, err := ask(t, test.ctx, test.task)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("Ask() = %v, want an error with %q", err, test.want)
			}
			if size := len(err.Error()); size > 2*maxComplaint || text.Printable(err.Error()) != err.Error() {
				t.Errorf("Ask() = %d bytes %q, want a short text without control characters", size, err)
			}
			if pids := testcontainer.Children(readCommand); len(pids) > 0 {
				t.Errorf("the processes %v still run", pids)
			}
		})
	}
}

func TestReaderOfATargetThatIsGone(t *testing.T) {
	err := Reader{Command: readCommand, Netns: "/proc/0/ns/net"}.Ask(t.Context(), "look", nil)
	if !errors.Is(err, target.ErrGone) {
		t.Errorf("Ask() = %v, want target.ErrGone", err)
	}
}

// io.Copy fills a bytes.Buffer by ReadFrom, which would bypass a bound in Write.
func TestBoundedHoldsForCopies(t *testing.T) {
	for size, refused := range map[int]bool{0: false, 9: false, 10: false, 11: true, 1 << 20: true} {
		kept := bounded{max: 10}
		_, err := io.Copy(&kept, io.LimitReader(strings.NewReader(strings.Repeat("x", size)), 1<<20))
		if (err != nil) != refused || kept.kept.Len() != min(size, 10) {
			t.Errorf("copy of %d bytes = %v, %d bytes kept, want at most 10", size, err, kept.kept.Len())
		}
	}
}
