package deploy

import (
	"slices"
	"testing"
)

func TestRightsOfTheWorker(t *testing.T) {
	rights, err := Rights("squall-worker")
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, right := range rights {
		said = append(said, right.String())
	}
	for _, want := range []string{
		"list disruptions everywhere", "update disruptions/status everywhere", "update pods in squall-chaos",
		"deletecollection pods in squall-chaos", "get pods/log in squall-chaos",
	} {
		if !slices.Contains(said, want) {
			t.Errorf("Rights(squall-worker) = %q, want %q among them", said, want)
		}
	}
	if others, err := Rights("somebody"); err != nil || others != nil {
		t.Errorf("Rights(somebody) = %v, %v, want none", others, err)
	}
}
