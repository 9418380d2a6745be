package console

import "testing"

func TestKindsHaveTheNamesOfKubectl(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"dis", "Disruption"}, {"disruption", "Disruption"}, {"disruptions", "Disruption"},
		{"cron", "DisruptionCron"}, {"crons", "DisruptionCron"}, {"DisruptionCron", "DisruptionCron"}, {"disruptioncrons", "DisruptionCron"},
		{"dicron", "DisruptionCron"}, {"disruptioncrons.chaos.squall.dev", "DisruptionCron"},
		{"rollout", "DisruptionRollout"}, {"diroll", "DisruptionRollout"}, {"scenario", "DisruptionScenario"}, {"discenario", "DisruptionScenario"},
		{"policy", "DisruptionPolicy"}, {"policies", "DisruptionPolicy"}, {"dipol", "DisruptionPolicy"}, {"disruptionpolicies", "DisruptionPolicy"},
	} {
		if got, err := KindOf(test.name); err != nil || got.Kind != test.want {
			t.Errorf("KindOf(%q) = %s, %v; want %s", test.name, got.Kind, err, test.want)
		}
	}
}
