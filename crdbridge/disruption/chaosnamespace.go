package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// errNoChaosNamespace means that the namespace of chaos pods is gone or about to go. What
// the worker does there fails until somebody makes it again, and nothing else tells why.
var errNoChaosNamespace = errors.New("no namespace for chaos pods")

// chaosNamespaceEvery is how often it is looked for: one call, however many disruptions
// there are.
const chaosNamespaceEvery = 15 * time.Second

// chaosNamespace knows whether the namespace of chaos pods is there.
type chaosNamespace struct {
	live client.Reader
	name string
	// changed has an event without a name when it went or came back.
	changed chan event.GenericEvent

	mu  sync.Mutex
	err error
}

// Start looks until ctx ends. Only the bridge that leads does.
func (n *chaosNamespace) Start(ctx context.Context) error {
	for {
		if n.look(ctx) {
			select {
			case n.changed <- event.GenericEvent{Object: &v1beta1.Disruption{}}:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(chaosNamespaceEvery):
		}
	}
}

// look is true when the answer changes what is known. Who may not look learns nothing.
func (n *chaosNamespace) look(ctx context.Context) (changed bool) {
	namespace := &corev1.Namespace{}
	err := n.live.Get(ctx, client.ObjectKey{Name: n.name}, namespace)
	var now error
	switch {
	case apierrors.IsNotFound(err):
		now = fmt.Errorf("%w: namespace %s is missing", errNoChaosNamespace, n.name)
	case err != nil:
		if ctx.Err() == nil {
			ctrl.Log.Info("the namespace of chaos pods not looked for", "reason", err.Error())
		}
		return false
	case namespace.DeletionTimestamp != nil:
		now = fmt.Errorf("%w: namespace %s is being deleted", errNoChaosNamespace, n.name)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	changed = fmt.Sprint(n.err) != fmt.Sprint(now)
	n.err = now
	return changed
}

// Err is errNoChaosNamespace, wrapped, while the namespace is not there.
func (n *chaosNamespace) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}
