package targets

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func record(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: map[string]string{v1beta1.LabelShard: "0"}},
		Data:       map[string]string{keyTargets: "[]"},
	}
}

// behind is a watch that has seen these shards and will see no more.
func behind(seen ...Shard) *Watch {
	r := &Watch{changed: make(chan struct{}), shards: map[string]Shard{}}
	for _, s := range seen {
		r.shards[s.object.Name] = s
	}
	return r
}

func TestWatchAfterAWrite(t *testing.T) {
	r := &Watch{changed: make(chan struct{})}
	store := watchStore{r}
	wants := func(when string, written versions, want bool) {
		t.Helper()
		if _, seen, _ := r.now(written); seen != want {
			t.Errorf("%s: seen = %t, want %t", when, seen, want)
		}
	}
	wants("nothing is listed yet", nil, false)
	_, _, changed := r.now(nil)
	_ = store.Replace([]any{record("a", "9"), record("b", "7")}, "9")
	<-changed
	wants("as it was listed", versions{"a": "9"}, true)
	wants("an older version is there", versions{"a": "9", "b": "10"}, false)
	_ = store.Update(record("b", "11"))
	wants("a newer version is there", versions{"a": "9", "b": "10"}, true)
	wants("it is there still", versions{"b": ""}, false)
	_ = store.Delete(record("b", "12"))
	wants("it is gone", versions{"a": "9", "b": ""}, true)
	_ = store.Replace([]any{record("b", "8")}, "8")
	wants("a list of before the write", versions{"a": "9"}, false)
	_ = store.Add(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "bad"}})
	all, seen, _ := r.now(nil)
	if bad := slices.IndexFunc(all, func(s Shard) bool { return s.broken != nil }); !seen || len(all) != 2 || bad < 0 {
		t.Errorf("shards = %+v, want b, and one that is broken", all)
	}
}
