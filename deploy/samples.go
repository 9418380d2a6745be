package deploy

import (
	"embed"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

//go:embed samples/*.yaml crds/chaos.squall.dev_disruptions.yaml
var documents embed.FS

// Sample is the example of a kind, a manifest with comments.
func Sample(kind v1beta1.Kind) ([]byte, error) {
	sample, err := documents.ReadFile("samples/" + string(kind) + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no sample of %s: %w", kind, err)
	}
	return sample, nil
}

// DisruptionCRD is the manifest that tells a cluster what a Disruption is, with
// the description of every field.
func DisruptionCRD() ([]byte, error) {
	return documents.ReadFile("crds/chaos.squall.dev_disruptions.yaml")
}
