package temporal

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/squall-chaos/squall/kube"
)

// identity is the bridge's own cluster. The bridge reads it when it starts, so that no
// disruption has to wait for it, or later if that fails.
type identity struct {
	reader client.Reader // not a cache: one read is enough
	mutex  sync.Mutex
	known  bool
	uid    types.UID
}

// Start is called by the manager.
func (i *identity) Start(ctx context.Context) error {
	_, _ = i.read(ctx) // a later caller reads again and gets the error
	return nil
}

// NeedLeaderElection is false: a leader has it already when it is elected.
func (i *identity) NeedLeaderElection() bool { return false }

func (i *identity) read(ctx context.Context) (types.UID, error) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if i.known {
		return i.uid, nil
	}
	uid, err := kube.Identity(func(name string) (*corev1.Namespace, error) {
		namespace := &corev1.Namespace{}
		return namespace, i.reader.Get(ctx, client.ObjectKey{Name: name}, namespace)
	})
	i.uid, i.known = uid, err == nil
	return uid, err
}
