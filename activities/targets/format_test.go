package targets

import (
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/yaml"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// A record lives as long as its disruption, so it outlives upgrades: its name, labels,
// keys and every field stay as they are. You may add a field, to the files too.
func TestRecordsStayAsTheyAre(t *testing.T) {
	older := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	count := intstr.FromString("50%")
	d := &v1beta1.Disruption{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "lossy", UID: "disruption-uid", Generation: 2, CreationTimestamp: metav1.NewTime(older)},
		Spec:       v1beta1.DisruptionSpec{Level: v1beta1.LevelPod, Count: &count},
	}
	target := Target{
		InjectionTarget: v1beta1.InjectionTarget{
			Namespace: "shop", Name: "web-0", UID: "target-uid", NodeName: "node-1", NodeIPs: []string{"10.0.0.1"}, PodIPs: []string{"10.1.0.1"},
			Containers: []v1beta1.InjectionContainer{{Name: "web", ID: "0123abcd"}}, SomeContainers: true,
		},
		Ended: "the target is gone", EndedBy: "activity 7", Lost: true, EndedAt: &metav1.Time{Time: older}, Run: 2,
	}
	for v, i := reflect.ValueOf(target.InjectionTarget), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("the example does not set %s", v.Type().Field(i).Name)
		}
	}
	store := NewStore(fake.NewClientset(), "squall-chaos", nil, 1)
	if _, err := store.StoreSpec(t.Context(), d, "run-1", nil); err != nil {
		t.Fatal(err)
	}
	spec, err := store.Kube.CoreV1().ConfigMaps(store.Namespace).Get(t.Context(), "squall-disruption-uid", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	shard, err := newShard(d.Ref(), 3, "network-disruption", []Target{target})
	if err != nil {
		t.Fatal(err)
	}
	forgotten := Forgotten{Lost: 7, Hour: 498756, LostInHour: 2, Nodes: []string{"node-2"}}
	if err := (Shard{forgotten: forgotten}).noteForgotten(shard); err != nil {
		t.Fatal(err)
	}
	spec.Namespace, spec.TypeMeta, spec.ManagedFields = "", metav1.TypeMeta{}, nil
	wantRecord(t, "testdata/records/spec.yaml", spec)
	wantRecord(t, "testdata/records/shard.yaml", shard)

	read, err := readShard(fileRecord(t, "testdata/records/shard.yaml"))
	for i := range read.Targets {
		read.Targets[i].EndedAt.Time = read.Targets[i].EndedAt.UTC()
	}
	if diff := cmp.Diff(forgotten, read.forgotten); diff != "" {
		t.Errorf("of targets that it held once (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Target{target}, read.Targets); err != nil || read.Number != 3 || diff != "" {
		t.Errorf("shard %d, %v (-want +got):\n%s", read.Number, err, diff)
	}
	afresh := NewStore(fake.NewClientset(withNamespace(fileRecord(t, "testdata/records/spec.yaml"), "squall-chaos")), "squall-chaos", nil, 1)
	loaded, err := afresh.LoadSpec(t.Context(), d.Ref())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d.Spec, loaded.Spec); diff != "" || loaded.UID != d.UID || loaded.Generation != 2 || !loaded.CreationTimestamp.Time.Equal(older) {
		t.Errorf("read of %+v (-want +got):\n%s", loaded.ObjectMeta, diff)
	}
}

func withNamespace(record *corev1.ConfigMap, namespace string) *corev1.ConfigMap {
	record.Namespace = namespace
	return record
}

func fileRecord(t *testing.T, path string) *corev1.ConfigMap {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	record := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(text, record); err != nil {
		t.Fatal(err)
	}
	return record
}

// wantRecord compares the record with its file. When you add a field, add it to the
// file by hand.
func wantRecord(t *testing.T, path string, record *corev1.ConfigMap) {
	t.Helper()
	got, err := yaml.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
