//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
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
	ctx, cancel := context.WithTimeout(context.Background(), inVirtual(2*time.Minute))
	defer cancel()
	for _, node := range w.nodes {
		audit, err := w.injectors().Audit(ctx, node)
		if err != nil {
			return err
		}
		for _, mark := range audit.Marks {
			if _, ours := used.Load(mark.Disruption.Namespace); ours {
				return fmt.Errorf("%s carries %s of %s", node, mark.Object, mark.Disruption.Name)
			}
		}
	}
	return nil
}
