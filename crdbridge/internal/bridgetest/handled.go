package bridgetest

import (
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
// observations: a reconcile that asks for the next one sooner is not done yet.
const heldBack = 20 * time.Second

const mark = "test.squall.io/mark"

// Handled waits until the bridge has acted on every earlier change of o, a Disruption
// or an EmergencyStop. It annotates o twice, which its controller must reconcile. The
// second mark is written when the cache has the first, so the reconcile after it
// began with all that came before in the same watch. Handled says nothing of watches
// of other types.
func (b *Bridge) Handled(o client.Object) {
	b.T.Helper()
	b.mark(o)
	Eventually(b.T, Soon, "the cache has the mark", func() bool {
		got := o.DeepCopyObject().(client.Object)
		err := b.Manager.GetClient().Get(b.T.Context(), client.ObjectKeyFromObject(o), got)
		return err == nil && got.GetAnnotations()[mark] == o.GetAnnotations()[mark]
	})
	key := reconcileKey{"disruption", o.GetNamespace(), o.GetName()}
	if _, stop := o.(*v1beta1.EmergencyStop); stop {
		key = reconcileKey{"emergencystop", "", "everything"}
	}
	before := b.reconciles.of(key).began
	b.mark(o)
	Eventually(b.T, Soon, "the mark is handled", func() bool {
		now := b.reconciles.of(key)
		return now.ended > before && !now.heldBack
	})
}

// mark annotates o with a new value, as nobody but a test does. It leaves the rest of
// what o points to as it was.
func (b *Bridge) mark(o client.Object) {
	b.T.Helper()
	marked := o.DeepCopyObject().(client.Object)
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, mark, time.Now().Format(time.RFC3339Nano))
	b.Must(b.Kube.Patch(b.T.Context(), marked, client.RawPatch(MergePatch, []byte(patch))))
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[mark] = marked.GetAnnotations()[mark]
	o.SetAnnotations(annotations)
}

// reconcileKey is what a controller works on.
type reconcileKey struct{ controller, namespace, name string }

// reconcileCount counts the reconciles of one key, which never overlap.
type reconcileCount struct {
	began, ended int
	// heldBack is true when the last one asked for the next before long.
	heldBack bool
}

// reconcileLog counts reconciles by what controller-runtime logs of each.
type reconcileLog struct {
	mu    sync.Mutex
	byKey map[reconcileKey]reconcileCount
}

func (l *reconcileLog) of(key reconcileKey) reconcileCount {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byKey[key]
}

// add makes logger count as well.
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
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	count := c.log.byKey[c.reconcileKey]
	after, again := strings.CutPrefix(entry.Message, "Reconcile done, requeueing after ")
	switch {
	case entry.Message == "Reconciling":
		count.began++
	case again:
		wait, err := time.ParseDuration(after)
		if err != nil {
			return err
		}
		count.ended++
		count.heldBack = wait < heldBack
	case entry.Message == "Reconcile successful", entry.Message == "Reconciler error":
		count.ended++
		count.heldBack = false
	}
	c.log.byKey[c.reconcileKey] = count
	return nil
}

func (reconcileCore) Sync() error { return nil }
