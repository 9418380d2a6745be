//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// used are the namespaces of this run.
var used sync.Map

// TestMain asks every node at the end whether anything carries the marks of
// this run's disruptions, also of those that were made stuck on purpose.
func TestMain(m *testing.M) {
	code := m.Run()
	if w, err := shared(); err == nil && code == 0 {
		if err := w.audit(); err != nil {
			fmt.Println("FAIL: after all tests:", err)
			code = 1
		}
	}
	os.Exit(code)
}

func (w *world) audit() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for _, node := range w.nodes {
		said, err := w.runInjector(ctx, node, "audit")
		if err != nil {
			return err
		}
		var audit v1beta1.Audit
		if err := json.Unmarshal([]byte(said), &audit); err != nil {
			return fmt.Errorf("audit of %s said %q: %w", node, said, err)
		}
		for _, mark := range audit.Marks {
			if _, ours := used.Load(mark.Disruption.Namespace); ours {
				return fmt.Errorf("%s carries %s of %s", node, mark.Object, mark.Disruption.Name)
			}
		}
	}
	return nil
}
