package kube

import (
	"context"
	"errors"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unreachable is true for an error of client-go without an answer of the API server: no
// connection, a broken connection, or an answer 503 or 504. It is false for a request
// that its caller cancelled.
func Unreachable(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, transport := errors.AsType[*url.Error](err)
	return transport || apierrors.IsServiceUnavailable(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}
