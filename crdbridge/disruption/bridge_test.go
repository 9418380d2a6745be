package disruption

import (
	"errors"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/crdbridge/emergencystop"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// bridge has the controllers that the tests of this package need.
type bridge struct{ *bridgetest.Bridge }

func newBridge(t *testing.T) *bridge {
	t.Helper()
	return newBridgeThatDeletes(t, 0)
}

// newBridgeThatDeletes returns a bridge that deletes Disruptions that ended ttl ago.
func newBridgeThatDeletes(t *testing.T, ttl time.Duration) *bridge {
	t.Helper()
	return &bridge{bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, w *temporal.Workflows) error {
		return errors.Join(Setup(m, w, b.ChaosNamespace, ttl), emergencystop.Setup(m, b.ChaosNamespace, b.Watched))
	}))}
}

// newBridgeWithClock returns a bridge that uses the clock now.
func newBridgeWithClock(t *testing.T, now func() time.Time) *bridge {
	t.Helper()
	return &bridge{bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, w *temporal.Workflows) error {
		return setup(m, w, b.ChaosNamespace, 0, now)
	}))}
}

func (b *bridge) start() *bridge {
	b.T.Helper()
	b.Start()
	return b
}
