package temporal

import (
	"context"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/workflows/contract"
	"github.com/squall-chaos/squall/workflows/start"
)

// StartScenario makes sure that the workflow of s runs, or has run to its end.
func (w *Workflows) StartScenario(ctx context.Context, s *v1beta1.DisruptionScenario) error {
	return w.starts(ctx, func(ctx context.Context, in start.Temporal) error { return start.Scenario(ctx, in, scenarioRef(s)) })
}

// SignalScenario sends the workflow of s a signal, if it runs.
func (w *Workflows) SignalScenario(ctx context.Context, s *v1beta1.DisruptionScenario, signal string, arg any) error {
	return w.signals(ctx, signal, func(ctx context.Context) error {
		return start.SignalScenario(ctx, w.client, scenarioRef(s), signal, arg)
	})
}

func scenarioRef(s *v1beta1.DisruptionScenario) contract.ScenarioRef {
	return contract.ScenarioRef{Namespace: s.Namespace, Name: s.Name, UID: s.UID}
}
