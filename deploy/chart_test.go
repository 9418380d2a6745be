package deploy

import (
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/test/apiserver"
)

// The API server accepts the chart with every value set, and knows each of its fields.
// test/chart writes that file.
func TestChartIsTaken(t *testing.T) {
	installed(t)
	text, err := os.ReadFile("testdata/chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := decoded(t, text)
	if len(objects) < 15 {
		t.Fatalf("the file has %d objects: this would prove little", len(objects))
	}
	applyWith(t, apiserver.Start(t), objects, metav1.ApplyOptions{FieldManager: "helm", Force: true, DryRun: []string{metav1.DryRunAll}})
}
