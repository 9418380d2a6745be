package kube

import (
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unreachable is true for an error of client-go by which the API server has not answered: no
// connection, a connection that broke, or an answer 503 or 504. A request that its caller
// cancelled is none.
func Unreachable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, transport := errors.AsType[*url.Error](err)
	return transport || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
