package console

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/manifest"
)

// Kind is a kind of object that a command line can name.
type Kind struct {
	cluster.Resource
	// Plural and Singular are its names for people, such as crons and cron.
	Plural, Singular string
	// names are all names that a command accepts.
	names []string
}

// Kinds are the kinds that a command line can name, the default first.
func Kinds() []Kind {
	all := []Kind{
		{Resource: cluster.Disruptions, Plural: "disruptions", Singular: "disruption", names: []string{"dis"}},
		{Resource: cluster.Scenarios, Plural: "scenarios", Singular: "scenario", names: []string{"discenario"}},
		{Resource: cluster.Crons, Plural: "crons", Singular: "cron", names: []string{"dicron"}},
		{Resource: cluster.Rollouts, Plural: "rollouts", Singular: "rollout", names: []string{"diroll"}},
		{Resource: cluster.Policies, Plural: "policies", Singular: "policy", names: []string{"dipol"}},
	}
	for i := range all {
		k := &all[i]
		k.names = append(k.names, k.Plural, k.Singular, k.Name, strings.ToLower(k.Kind))
		for _, name := range slices.Clone(k.names) {
			k.names = append(k.names, name+"."+v1beta1.GroupVersion.Group)
		}
	}
	return all
}

// KindOf finds a kind by one of its names.
func KindOf(name string) (Kind, error) {
	var known, plurals []string
	for _, kind := range Kinds() {
		if slices.Contains(kind.names, strings.ToLower(name)) {
			return kind, nil
		}
		known, plurals = append(known, kind.names...), append(plurals, kind.Plural)
	}
	if near := manifest.Nearest(name, known); near != "" {
		return Kind{}, Usage("there is no kind %q: did you mean %s?", name, near)
	}
	return Kind{}, Usage("there is no kind %q; choose one of %s", name, strings.Join(plurals, ", "))
}

// KindAndName reads KIND/NAME; a name alone is that of a disruption.
func KindAndName(text string) (Kind, string, error) {
	kind, name, both := strings.Cut(text, "/")
	if !both {
		kind, name = cluster.Disruptions.Name, text
	}
	found, err := KindOf(kind)
	if err != nil {
		return found, name, Usage("%w; if %s is a namespace, write -n %[2]s %[3]s", err, kind, name)
	}
	return found, name, nil
}

// ScenarioPrefix before a name selects the scenario of that name, if a disruption has the
// same name.
const ScenarioPrefix = "scenario/"

// DisruptionOrScenario is the disruption or the scenario of a name; the other one is nil.
func DisruptionOrScenario(ctx context.Context, client *cluster.Client, name string) (*v1beta1.Disruption, *v1beta1.DisruptionScenario, error) {
	kind, name, err := KindAndName(name)
	switch {
	case err != nil:
		return nil, nil, err
	case kind.Resource.Name == cluster.Scenarios.Name:
		s, err := client.Scenario(ctx, client.Namespace, name)
		return nil, s, err
	case kind.Resource.Name != cluster.Disruptions.Name:
		return nil, nil, fmt.Errorf("%s %s is neither a disruption nor a scenario: kubectl -n %s delete %s %[2]s ends it with its runs", kind.Kind, name, client.Namespace, kind.Resource.Name)
	}
	d, err := client.Disruption(ctx, client.Namespace, name)
	if !cluster.Gone(err) {
		return d, nil, err
	}
	s, other := client.Scenario(ctx, client.Namespace, name)
	if other != nil {
		return nil, nil, err // also if the user may not read scenarios, or the cluster has no such type
	}
	return nil, s, nil
}
