package check

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/manifest"
)

// Place is what a command line has of the place of an object.
type Place struct {
	// Namespace is that of an object without one. Given is true if the user named it.
	Namespace string
	Given     bool
	// ChaosNamespace is the namespace of the chaos pods, in which nothing is disrupted.
	ChaosNamespace string
}

// One is the one disruption or the one scenario of the files, valid and with its namespace.
func One(s console.Streams, files []string, at Place) (*v1beta1.Disruption, *v1beta1.DisruptionScenario, error) {
	c := call{s}
	documents, err := c.Read(files)
	if err != nil {
		return nil, nil, err
	}
	var d *v1beta1.Disruption
	var scenario *v1beta1.DisruptionScenario
	var found []*metav1.ObjectMeta
	for _, document := range documents {
		switch {
		case document.Disruption != nil:
			d = document.Disruption
			found = append(found, &d.ObjectMeta)
		case document.DisruptionScenario != nil:
			scenario = document.DisruptionScenario
			found = append(found, &scenario.ObjectMeta)
		}
	}
	for _, meta := range found {
		if meta.Namespace == "" {
			meta.Namespace = at.Namespace
		}
	}
	manifest.Check(documents, manifest.Rules{Now: c.Now(), ChaosNamespace: at.ChaosNamespace})
	if err := c.refuseInvalid(documents); err != nil {
		return nil, nil, err
	}
	if len(found) != 1 {
		return nil, nil, notOne(files[0], documents, len(found))
	}
	if at.Given && found[0].Namespace != at.Namespace {
		return nil, nil, console.Usage("%s has namespace %s, and -n has %s: leave one out", files[0], found[0].Namespace, at.Namespace)
	}
	return d, scenario, nil
}

// notOne is the error of a file that holds no disruption or scenario, or several.
func notOne(file string, documents []manifest.Document, found int) error {
	if found > 1 {
		return fmt.Errorf("%s holds %d disruptions and scenarios: pass a file with one", console.ShownName(file), found)
	}
	for _, d := range documents {
		if !d.Foreign {
			return fmt.Errorf("%s holds %s, and no Disruption or DisruptionScenario: create it by kubectl apply -f %s", console.ShownName(file), d, file)
		}
	}
	if len(documents) > 0 {
		return fmt.Errorf("%s holds %s, and no Disruption or DisruptionScenario", console.ShownName(file), documents[0])
	}
	return fmt.Errorf("%s holds no Disruption or DisruptionScenario", console.ShownName(file))
}

// refuseInvalid prints the problems of invalid documents, and returns an error if there are
// any.
func (c call) refuseInvalid(documents []manifest.Document) error {
	for _, d := range documents {
		if len(d.Problems) == 0 {
			continue
		}
		err := c.showValidated(c.Err, documents, "")
		if _, printed := console.CodeOf(err); !printed {
			return err
		}
		return console.Exit{Code: console.ExitError, Err: fmt.Errorf("%s is not valid: %s", d, strings.Join(d.Problems, "; ")), Silent: true}
	}
	return nil
}
