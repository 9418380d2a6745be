package bridgetest

import (
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// heldBack is longer than the longest pause that a controller makes between two
// observations: a reconcile that requeues sooner is not done yet.
const heldBack = 20 * time.Second

// Handled waits until the bridge has acted on every earlier change of o, a Disruption or an
// EmergencyStop. It annotates o and waits for the end of a reconcile that had the
// annotation in the cache. The cache then has all earlier changes of the same watch, but not
// necessarily those of other types.
func (b *Bridge) Handled(o client.Object) {
	b.T.Helper()
	const annotation = "test.squall.io/mark"
	mark := rand.Text()
	key := reconcileKey{"disruption", o.GetNamespace(), o.GetName()}
	if _, stop := o.(*v1beta1.EmergencyStop); stop {
		key = reconcileKey{"emergencystop", "", "everything"}
	}
	cache, ctx, found := b.Manager.GetClient(), b.T.Context(), o.DeepCopyObject().(client.Object)
	b.reconciles.await(key, func() bool {
		err := cache.Get(ctx, client.ObjectKeyFromObject(o), found)
		return err == nil && found.GetAnnotations()[annotation] == mark
	})
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, annotation, mark)
	b.Must(b.Kube.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(MergePatch, []byte(patch))))
	Eventually(b.T, Soon, "the mark is handled", b.reconciles.isHandled)
}

// reconcileKey is what a controller works on.
type reconcileKey struct{ controller, namespace, name string }

// reconcileLog follows the reconciles of one key, which never overlap, by what
// controller-runtime logs of each.
type reconcileLog struct {
	mu  sync.Mutex
	key reconcileKey
	// sees is called at the beginning of each reconcile, and saw is its last answer.
	sees func() bool
	saw  bool
	// handled is true once a reconcile for which sees was true has ended.
	handled bool
}

// await begins to follow a key.
func (l *reconcileLog) await(key reconcileKey, sees func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.sees, l.saw, l.handled = key, sees, false, false
}

func (l *reconcileLog) isHandled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.handled
}

// note takes one line of the log.
func (l *reconcileLog) note(key reconcileKey, message string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key != key {
		return nil
	}
	after, again := strings.CutPrefix(message, "Reconcile done, requeueing after ")
	switch {
	case message == "Reconciling":
		l.saw = l.sees()
	case again:
		wait, err := time.ParseDuration(after)
		if err != nil {
			return err
		}
		l.handled = l.handled || l.saw && wait >= heldBack
	case message == "Reconcile successful", message == "Reconciler error":
		l.handled = l.handled || l.saw
	}
	return nil
}

// add makes the log follow what logger gets.
func (l *reconcileLog) add(logger logr.Logger) logr.Logger {
	under := zap.NewNop()
	if z, ok := logger.GetSink().(zapr.Underlier); ok {
		under = z.GetUnderlying()
	}
	return zapr.NewLogger(under.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
		return zapcore.NewTee(core, reconcileCore{log: l})
	})))
}

// reconcileCore is the part of the log that belongs to one key.
type reconcileCore struct {
	reconcileKey
	log *reconcileLog
}

// Enabled is true down to the level of controller-runtime's lines on reconciles.
func (reconcileCore) Enabled(level zapcore.Level) bool { return level >= -5 }

func (c reconcileCore) With(fields []zapcore.Field) zapcore.Core {
	for _, f := range fields {
		switch f.Key {
		case "controller":
			c.controller = f.String
		case "namespace":
			c.namespace = f.String
		case "name":
			c.name = f.String
		}
	}
	return c
}

func (c reconcileCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked.AddCore(entry, c)
}

func (c reconcileCore) Write(entry zapcore.Entry, _ []zapcore.Field) error {
	return c.log.note(c.reconcileKey, entry.Message)
}

func (reconcileCore) Sync() error { return nil }
