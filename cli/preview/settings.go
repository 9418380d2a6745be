package preview

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/squall-chaos/squall/activities/policy"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/settings"
)

// workerSettings are the worker's settings for the selection and the number of targets.
type workerSettings struct {
	chaos, system string
	controlPlane  bool
	safeMode      string
	thresholds    policy.Thresholds
	// assumed names the assumed settings and the reason; empty if they were read.
	assumed string
}

// workerSettingsOf reads the settings of the worker in a namespace, and assumes the
// defaults of those it cannot read. chaos is the namespace of the chaos pods, which the
// worker's setting replaces unless the user named it.
func workerSettingsOf(ctx context.Context, client *cluster.Client, system, chaos string, chaosNamed bool) workerSettings {
	s := workerSettings{chaos: chaos, system: system, safeMode: policy.SwitchWarn, thresholds: policy.DefaultThresholds}
	values, err := client.WorkerSettings(ctx, system)
	if err == nil {
		err = s.take(values, chaosNamed)
	}
	if err != nil {
		s.assumed = fmt.Sprintf("control-plane-nodes %t, safe-mode %s, limits %d %% and %d %%, chaos-namespace %s: the worker's settings cannot be read: %v",
			s.controlPlane, s.safeMode, s.thresholds.Namespace, s.thresholds.Cluster, s.chaos, err)
	}
	return s
}

// take stores the values that are set. A value that the worker would refuse changes
// nothing.
func (s *workerSettings) take(values map[string]string, chaosNamed bool) error {
	var wrong []error
	read := func(setting string, into func(value string) error) {
		if value := values[settings.Variable(setting)]; value != "" {
			if err := into(value); err != nil {
				wrong = append(wrong, fmt.Errorf("%s is %q", setting, value))
			}
		}
	}
	read("control-plane-nodes", func(value string) error { return parsed(&s.controlPlane, value, strconv.ParseBool) })
	read("safe-mode", func(value string) error {
		return parsed(&s.safeMode, value, func(v string) (string, error) { return v, policy.CheckSwitch(v) })
	})
	read("safe-mode-namespace-threshold", func(value string) error { return parsed(&s.thresholds.Namespace, value, strconv.Atoi) })
	read("safe-mode-cluster-threshold", func(value string) error { return parsed(&s.thresholds.Cluster, value, strconv.Atoi) })
	if chaos := values[settings.Variable("chaos-namespace")]; chaos != "" && !chaosNamed {
		s.chaos = chaos
	}
	return errors.Join(wrong...)
}

func parsed[T any](into *T, value string, parse func(string) (T, error)) error {
	got, err := parse(value)
	if err == nil {
		*into = got
	}
	return err
}

// judge is the worker's objection to so many targets: a refusal if safe mode is enforced,
// else a warning.
func (s workerSettings) judge(tooMany string) (refusal, warning string) {
	switch {
	case tooMany == "" || s.safeMode == policy.SwitchOff:
		return "", ""
	case s.safeMode == policy.SwitchEnforce:
		return "safe mode, which is enforced: " + tooMany, ""
	case s.assumed != "":
		return "", "safe mode, unless the operator set other limits: " + tooMany
	}
	return "", "safe mode: " + tooMany
}
