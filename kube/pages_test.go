package kube

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPages(t *testing.T) {
	const all = 1201
	list := func(_ context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
		if o.Limit == 0 || o.LabelSelector != "disk=fast" {
			t.Fatalf("listed with %+v, want a limit, and the selector on each page", o)
		}
		from, _ := strconv.Atoi(o.Continue)
		page := &corev1.NodeList{Items: make([]corev1.Node, min(int(o.Limit), all-from))}
		if next := from + len(page.Items); next < all {
			page.Continue = strconv.Itoa(next)
		}
		return page, nil
	}
	for _, test := range []struct {
		limit int64
		want  []int
	}{{0, []int{500, 500, 201}}, {1200, []int{1200, 1}}, {all, []int{all}}} {
		var sizes []int
		err := Pages(t.Context(), list, metav1.ListOptions{LabelSelector: "disk=fast", Limit: test.limit}, func(page *corev1.NodeList) { sizes = append(sizes, len(page.Items)) })
		if err != nil || !slices.Equal(sizes, test.want) {
			t.Errorf("with limit %d: pages of %v, %v, want %v", test.limit, sizes, err, test.want)
		}
	}
	expired := errors.New("the place in the list is too old")
	broken := func(ctx context.Context, o metav1.ListOptions) (*corev1.NodeList, error) {
		if o.Continue != "" {
			return nil, expired
		}
		return list(ctx, o)
	}
	if err := Pages(t.Context(), broken, metav1.ListOptions{LabelSelector: "disk=fast"}, func(*corev1.NodeList) {}); !errors.Is(err, expired) {
		t.Errorf("a page that cannot be read: %v, want that error", err)
	}
}
