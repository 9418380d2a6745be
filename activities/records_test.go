package activities

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func record(name, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version, Labels: map[string]string{v1beta1.LabelShard: "0"}},
		Data:       map[string]string{keyTargets: "[]"},
	}
}

// behind is a watch that has seen these shards and will see no more.
func behind(seen ...shard) *Records {
	r := &Records{changed: make(chan struct{}), shards: map[string]shard{}}
	for _, s := range seen {
		r.shards[s.object.Name] = s
	}
	return r
}

func TestRecordsAfterAWrite(t *testing.T) {
	r := &Records{changed: make(chan struct{})}
	store := recordStore{r}
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
	if bad := slices.IndexFunc(all, func(s shard) bool { return s.broken != nil }); !seen || len(all) != 2 || bad < 0 {
		t.Errorf("shards = %+v, want b, and one that is broken", all)
	}
}

// rule 19: the watch may hold anything of the past.
func TestClaimsWithAWatchThatIsBehind(t *testing.T) {
	two := func(spec *v1beta1.DisruptionSpec) { count := intstr.FromInt32(2); spec.Count = &count }
	distinct := func(c *cluster, n int, refs ...Ref) {
		c.Helper()
		held := map[types.UID]bool{}
		for _, ref := range refs {
			for _, uid := range c.chosen(ref) {
				held[uid] = true
			}
		}
		if len(held) != n {
			c.Errorf("%d targets are held, want %d", len(held), n)
		}
	}
	t.Run("it has seen no claim", func(t *testing.T) {
		c := newCluster(t)
		c.targets(4, nil)
		c.Records = behind()
		a, _ := c.selectFor("a", two)
		b, _ := c.selectFor("b", two)
		distinct(c, 4, a, b)
	})
	t.Run("it has not seen that a claim was withdrawn", func(t *testing.T) {
		c := newCluster(t)
		c.targets(2, nil)
		a, _ := c.selectFor("a", two)
		c.eventually("the watch has seen the claim", func() bool { all, _, _ := c.Records.now(nil); return len(all) == 1 })
		past, _, _ := c.Records.now(nil)
		c.must(c.forget(t.Context(), a))
		c.Records = behind(past...)
		b, _ := c.selectFor("b", two)
		distinct(c, 2, b)
	})
	t.Run("it has not seen what an earlier attempt claimed", func(t *testing.T) {
		c := newCluster(t)
		c.targets(4, nil)
		c.Records = behind()
		a, _ := c.selectFor("a", two)
		first := c.chosen(a)
		if again := do[Selection](c, c.SelectTargets, SelectInput{Disruption: a}); again.Selected != 2 || !slices.Equal(c.chosen(a), first) {
			t.Errorf("the second attempt selected %+v %v, the first %v", again, c.chosen(a), first)
		}
	})
}
