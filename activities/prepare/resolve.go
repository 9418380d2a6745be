package prepare

import (
	"context"
	"strings"

	"github.com/squall-chaos/squall/activities/hosts"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// resolve returns the address ranges of the clouds that the disruption names, which stay
// fixed while it lasts. refused is why something that it names cannot be disrupted: a
// missing service or port, or a cloud without known ranges. It is empty if all of it can.
func (a *Activities) resolve(ctx context.Context, d *v1beta1.Disruption) (ranges []v1beta1.NetworkHost, refused string, err error) {
	if !d.Spec.Network.NeedsResolving() {
		return nil, "", nil
	}
	found, problems, err := hosts.OfServices(ctx, a.Kube, d)
	if err != nil {
		return nil, "", err
	}
	ranges, unknown, err := a.Clouds.Hosts(ctx, d.Spec.Network)
	if err != nil {
		return nil, "", err
	}
	problems = append(problems, unknown...)
	if why := hosts.TooMany(d.Spec.Network, hosts.Unique(found, ranges)); why != "" {
		problems = append(problems, why)
	}
	return ranges, strings.Join(problems, "; "), nil
}
