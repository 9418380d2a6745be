package emergencystop

import (
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/squall-chaos/squall/crdbridge/disruption"
	"github.com/squall-chaos/squall/crdbridge/internal/bridgetest"
	"github.com/squall-chaos/squall/crdbridge/temporal"
)

func TestMain(m *testing.M) { bridgetest.Main(m) }

// bridge has the controllers that the tests of this package need.
type bridge struct{ *bridgetest.Bridge }

func newBridge(t *testing.T) *bridge {
	t.Helper()
	return &bridge{bridgetest.New(t, bridgetest.Controllers(func(b *bridgetest.Bridge, m manager.Manager, w *temporal.Workflows) error {
		return errors.Join(disruption.Setup(m, w, b.ChaosNamespace, 0), Setup(m, b.ChaosNamespace, b.Watched))
	}))}
}

func (b *bridge) start() *bridge {
	b.T.Helper()
	b.Start()
	return b
}
