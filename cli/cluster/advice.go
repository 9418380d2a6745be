package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/manifest"
)

// advise adds the next step to an error of the API server. name is that of the requested
// Disruption, or empty.
func (c *Client) advise(ctx context.Context, err error, namespace, name string) error {
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case noSuchResource(err):
		return fmt.Errorf("the cluster does not know Squall's resources: install Squall, or choose another cluster by --context: %w", err)
	case apierrors.IsNotFound(err) && name != "":
		return missing{fmt.Sprintf("there is no disruption %q in namespace %q%s", name, namespace, others(ctx, c, namespace, name))}
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return err // it names the user, the object and the reason
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not know you: log in again, or choose another user by --context: %w", c.Config.Host, err)
	}
	return c.Unreachable(err)
}

// missing is the error of an object that does not exist.
type missing struct{ text string }

func (m missing) Error() string { return m.text }

// Gone is true for an error that means that a disruption does not exist, or is another of
// its name.
func Gone(err error) bool {
	_, gone := errors.AsType[missing](err)
	return gone || apierrors.IsConflict(err)
}

// Unreachable adds a hint to an error of the network.
func (c *Client) Unreachable(err error) error {
	if _, network := errors.AsType[net.Error](err); network || strings.Contains(fmt.Sprint(err), "connection refused") {
		return fmt.Errorf("the API server at %s does not answer: choose the cluster by --context or --kubeconfig, and see with kubectl version: %w", c.Config.Host, err)
	}
	return err
}

// noSuchResource is true when the API server does not know the resource: its answer then
// names no object.
func noSuchResource(err error) bool {
	status, answered := errors.AsType[*apierrors.StatusError](err)
	return answered && apierrors.IsNotFound(err) && (status.ErrStatus.Details == nil || status.ErrStatus.Details.Name == "")
}

// others names the disruption that was probably meant, or the namespace of one with that
// name.
func others(ctx context.Context, c *Client, namespace, name string) string {
	list, err := c.Disruptions(ctx, namespace)
	if err != nil {
		return ""
	}
	var names []string
	for _, d := range list.Items {
		names = append(names, d.Name)
	}
	if near := manifest.Nearest(name, names); near != "" {
		return fmt.Sprintf(": did you mean %q?", near)
	}
	if everywhere, err := c.Disruptions(ctx, ""); err == nil {
		for _, d := range everywhere.Items {
			if d.Name == name {
				return fmt.Sprintf(", but in namespace %q: use -n %s", d.Namespace, d.Namespace)
			}
		}
	}
	return ": squall list -A lists those there are"
}

// CreateError explains an error of Create.
func CreateError(err error, d *v1beta1.Disruption) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("disruption %s/%s exists already. See it: squall -n %[1]s status %[2]s. End it: squall -n %[1]s stop %[2]s. Replace it once it has ended: squall run --replace", d.Namespace, d.Name)
	}
	return fmt.Errorf("create disruption %s/%s: %w", d.Namespace, d.Name, err)
}
