package deploy

import (
	"embed"
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

//go:embed samples/*.yaml samples/demo/*.yaml crds/*.yaml
var documents embed.FS

// Sample returns the example of a kind, a manifest with comments.
func Sample(kind v1beta1.Kind) ([]byte, error) {
	sample, err := documents.ReadFile("samples/" + string(kind) + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no sample of %s: %w", kind, err)
	}
	return sample, nil
}

// CRD returns the CustomResourceDefinition of a kind such as Disruption, with the description
// of every field.
func CRD(kind string) ([]byte, error) {
	name := strings.ToLower(kind) + "s"
	if kind == "DisruptionPolicy" {
		name = "disruptionpolicies"
	}
	crd, err := documents.ReadFile("crds/chaos.squall.dev_" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no CustomResourceDefinition of %s: %w", kind, err)
	}
	return crd, nil
}

// Demo returns the manifest of the shop that `squall demo` disrupts, and that of its
// Disruption.
func Demo() (shop, disruption []byte, err error) {
	if shop, err = documents.ReadFile("samples/demo/shop.yaml"); err != nil {
		return nil, nil, err
	}
	disruption, err = documents.ReadFile("samples/demo/slow-cart.yaml")
	return shop, disruption, err
}
