//go:build linux

package main

import (
	"errors"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// readInjection decodes the document of one injection. It refuses a document for another
// subcommand, or without the fields that a safe end needs.
func readInjection(document string, kind v1beta1.Kind) (v1beta1.Injection, error) {
	if document == "" {
		return v1beta1.Injection{}, fmt.Errorf("environment variable %s is empty", v1beta1.InjectionEnv)
	}
	var injection v1beta1.Injection
	if err := decodeStrictly([]byte(document), &injection); err != nil {
		return v1beta1.Injection{}, fmt.Errorf("environment variable %s: %w", v1beta1.InjectionEnv, err)
	}
	if err := checkInjection(injection, kind); err != nil {
		return v1beta1.Injection{}, fmt.Errorf("environment variable %s: %w", v1beta1.InjectionEnv, err)
	}
	return injection, nil
}

func checkInjection(i v1beta1.Injection, kind v1beta1.Kind) error {
	var errs []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	refuse(i.Kind != kind, "kind is %q, the command is %q", i.Kind, kind)
	refuse(len(i.Params) == 0, "params are missing")
	refuse(i.Disruption.UID == "", "disruption.uid is missing")
	refuse(i.Target.UID == "", "target.uid is missing")
	refuse(i.Deadline.IsZero(), "deadline is missing: without it the injection might never end")
	refuse(i.Pulse != nil && (i.Pulse.ActiveDuration == nil || i.Pulse.DormantDuration == nil), "pulse has no activeDuration or no dormantDuration")
	refuse(i.Level != v1beta1.LevelPod && i.Level != v1beta1.LevelNode, "level is %q, want %s or %s", i.Level, v1beta1.LevelPod, v1beta1.LevelNode)
	refuse(i.Level == v1beta1.LevelPod && len(i.Target.Containers) == 0, "target.containers is empty at level pod")
	refuse(i.Level == v1beta1.LevelNode && len(i.Target.Containers) > 0, "target.containers is not empty at level node")
	waits := len(i.Target.Containers) == 1 && i.Target.Containers[0].Name == v1beta1.OnInitContainer
	refuse(len(i.OnInit) > 0 && !waits, "onInit is set, and target.containers is not %s alone", v1beta1.OnInitContainer)
	return errors.Join(errs...)
}
