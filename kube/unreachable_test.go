package kube

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestUnreachable(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	list := func(ctx context.Context, address string) error {
		client, err := kubernetes.NewForConfig(&rest.Config{Host: address})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{})
		return err
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	breaks := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(breaks.Close)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"nothing listens":            {list(t.Context(), closed.URL), true},
		"the connection breaks":      {list(t.Context(), breaks.URL), true},
		"503":                        {apierrors.NewServiceUnavailable("starting"), true},
		"504":                        {fmt.Errorf("list pods: %w", apierrors.NewServerTimeout(pods, "list", 1)), true},
		"cancelled by the caller":    {list(cancelled, closed.URL), false},
		"an answer":                  {apierrors.NewNotFound(pods, "web-0"), false},
		"an error of another client": {&net.OpError{Op: "dial", Err: fmt.Errorf("refused")}, false},
		"none":                       {nil, false},
	} {
		if got := Unreachable(c.err); got != c.want {
			t.Errorf("%s: Unreachable(%v) = %t, want %t", name, c.err, got, c.want)
		}
	}
}
