//go:build e2e

package campaign

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/test/sample"
)

var corruptions = flag.Int("corruptions", 16, "how many single fields are changed, each while a disruption runs")

// lasting are the bases of disruptions whose objects are corrupted.
var lasting = []string{"cpu", "memory", "disk", "disk-failure", "dns", "network", "network-operations", "operations", "probes"}

// TestCorruptedFields removes or changes a single field of a running disruption in
// the API: of its status, labels and finalizers, its records and its chaos pods.
// The disruption still ends when it is deleted, nothing is left, and no other pod
// is disrupted.
func TestCorruptedFields(t *testing.T) {
	*seed = uint64(sample.Of(t, *seed))
	c := newCampaign(t)
	c.watchChaosPods()
	queue := make(chan int)
	var done sync.WaitGroup
	for slot := range *slots {
		done.Go(func() {
			for n := range queue {
				c.corruptOne(slot, n)
			}
		})
	}
	for n := range *corruptions {
		queue <- n
	}
	close(queue)
	done.Wait()
	c.judge()
	for _, what := range []string{"injected", "corrupted"} {
		if c.counts[what] == 0 {
			c.Errorf("no disruption was %s", what)
		}
	}
}

func (c *campaign) corruptOne(slot, n int) {
	r := rand.New(rand.NewPCG(*seed, uint64(n)))
	base := lasting[n%len(lasting)]
	spec := parse(bases[slices.IndexFunc(bases, func(b basis) bool { return b.name == base })].spec)
	spec["duration"] = "20m"
	a := attempt{base: base, spec: spec}
	name := fmt.Sprintf("corrupted-%d", n)
	object := c.object(name, slot, a.spec)
	made, err := c.disruptions.Create(c.Context(), object, metav1.CreateOptions{})
	if err != nil {
		c.Errorf("%s: %v", name, err)
		return
	}
	c.note(made)
	c.expectReported(a, name)
	what, err := c.corrupt(r, name)
	c.Logf("%s (%s): %s, %v", name, base, what, err)
	if err != nil {
		c.count("refused")
	} else {
		c.count("corrupted")
	}
	c.expectGone(attempt{base: name + " with " + what}, name)
}

// corrupt changes a field of one of the objects of a disruption.
func (c *campaign) corrupt(r *rand.Rand, name string) (what string, err error) {
	of := metav1.ListOptions{LabelSelector: v1beta1.LabelDisruptionName + "=" + name + "," + v1beta1.LabelDisruptionNamespace + "=" + c.namespace}
	var client dynamic.ResourceInterface = c.disruptions
	var objects []unstructured.Unstructured
	kind := []string{"disruptions", "disruptions", "pods", "configmaps"}[r.IntN(4)]
	if kind == "disruptions" {
		found, err := c.disruptions.Get(c.Context(), name, metav1.GetOptions{})
		if err != nil {
			return "get " + name, err
		}
		objects = []unstructured.Unstructured{*found}
	} else {
		client = c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: kind}).Namespace(chaosNamespace)
		found, err := client.List(c.Context(), of)
		if err != nil || len(found.Items) == 0 {
			return "list " + kind, fmt.Errorf("%d found: %w", len(found.Items), err)
		}
		objects = found.Items
	}
	object := objects[r.IntN(len(objects))]
	part := parts[kind][r.IntN(len(parts[kind]))]
	path := leaf(r, object.Object, part)
	if path == nil {
		return kind + " without " + part, nil
	}
	how := change(r, object.Object, path)
	what = fmt.Sprintf("%s %s: %s %s", kind, object.GetName(), strings.Join(path, "."), how)
	if part == "status" {
		_, err = client.UpdateStatus(c.Context(), &object, metav1.UpdateOptions{})
	} else {
		_, err = client.Update(c.Context(), &object, metav1.UpdateOptions{})
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return what + ", outrun", nil
	}
	return what, err
}

// parts are what is corrupted of each sort of object.
var parts = map[string][]string{
	"disruptions": {"status", "status", "status", "labels", "finalizers"},
	"pods":        {"labels", "labels", "annotations", "finalizers"},
	"configmaps":  {"data", "data", "data", "labels", "annotations"},
}

// leaf is the path of a field below a part of an object, or nil if there is none.
func leaf(r *rand.Rand, object map[string]any, part string) []string {
	path := []string{part}
	if part != "status" && part != "data" {
		path = []string{"metadata", part}
	}
	at := any(object)
	for _, name := range path {
		at = at.(map[string]any)[name]
	}
	for {
		below, ok := at.(map[string]any)
		if !ok {
			if at == nil {
				return nil
			}
			return path
		}
		if len(below) == 0 {
			return nil
		}
		names := slices.Sorted(maps.Keys(below))
		name := names[r.IntN(len(names))]
		path, at = append(path, name), below[name]
		if r.IntN(4) == 0 {
			return path // all below it
		}
	}
}

// change removes the field or sets another value, and returns which.
func change(r *rand.Rand, object map[string]any, path []string) string {
	for _, name := range path[:len(path)-1] {
		object = object[name].(map[string]any)
	}
	name := path[len(path)-1]
	text, isText := object[name].(string)
	if number, ok := object[name].(int64); ok && r.IntN(2) == 0 {
		object[name] = number + 7
		return "is more by 7"
	}
	switch {
	case !isText || r.IntN(3) == 0:
		delete(object, name)
		return "is removed"
	case len(text) > 1 && r.IntN(2) == 0:
		object[name] = text[:len(text)/2]
		return "is cut in half"
	default:
		at := r.IntN(len(text) + 1)
		object[name] = text[:at] + "7" + text[min(at+1, len(text)):]
		return fmt.Sprintf("has a 7 at %d", at)
	}
}
