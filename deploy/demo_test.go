package deploy

import (
	"strings"
	"testing"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// The demo is a first impression: its disruption must be valid, and no policy may warn of
// it.
func TestDemo(t *testing.T) {
	shop, disruption, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	d, err := v1beta1.Decode(disruption)
	if err != nil {
		t.Fatal(err)
	}
	d.Default()
	if err := d.Validate().ToAggregate(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(shop), "name: "+d.Namespace+"\n  labels:") || !strings.Contains(string(shop), v1beta1.LabelDisruptions+": allowed") {
		t.Errorf("the shop does not have namespace %s with the label that allows disruptions", d.Namespace)
	}
}
