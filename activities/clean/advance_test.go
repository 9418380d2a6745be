package clean

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/activities/cluster"
)

// rule 42: the finalizer stays on a chaos pod for 5 s after its deletion as Pending. The
// deletion timestamp is the end of the grace period, 1 minute later.
func TestAPendingChaosPodIsHeldFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		grace := int64(60)
		end := metav1.NewTime(time.Now().Add(time.Minute))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &end, DeletionGracePeriodSeconds: &grace}}
		a := &Activities{Cluster: &cluster.Cluster{}}
		time.Sleep(5 * time.Second)
		if !a.mayStart(pod) {
			t.Error("mayStart() = false 5 s after the deletion")
		}
		time.Sleep(time.Nanosecond)
		if a.mayStart(pod) {
			t.Error("mayStart() = true more than 5 s after the deletion")
		}
	})
}
