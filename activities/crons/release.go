package crons

import (
	"fmt"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/kube"
	"github.com/squall-chaos/squall/workflows/contract"
)

// waits returns why the run for a release has to wait; empty when it may begin. Before
// the rollout is done, it would target pods that are replaced soon.
func waits(p *parent, release contract.Release, have *v1beta1.Disruption, workload kube.Workload) string {
	switch {
	case workload.Release != (kube.Release{Containers: release.Containers, InitContainers: release.InitContainers}):
		return "the containers have changed again"
	case !workload.RolledOut:
		return "the release is not rolled out: " + workload.Waits
	case have != nil && p.owns(have) && !have.Settled():
		return "the run before it is not over"
	}
	return ""
}

// held returns that the run for a release waits, or that it waited too long.
func held(p *parent, scheduled, now time.Time, why string) Begun {
	if late := now.Sub(scheduled); late > p.lateness {
		return Begun{Reason: TooLate, Message: fmt.Sprintf("%s, and delayedStartTolerance is %s", why, p.lateness)}
	}
	return Begun{Reason: Waiting, Message: why}
}
