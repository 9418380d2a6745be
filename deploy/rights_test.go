package deploy

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestRightsOfTheWorker(t *testing.T) {
	rights, err := Rights("squall-worker")
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, right := range rights {
		given = append(given, right.String())
	}
	for _, want := range []string{
		"list disruptions everywhere", "update disruptions/status everywhere", "update pods in squall-chaos",
		"deletecollection pods in squall-chaos", "get pods/log in squall-chaos",
	} {
		if !slices.Contains(given, want) {
			t.Errorf("Rights(squall-worker) = %q, want %q among them", given, want)
		}
	}
	if others, err := Rights("somebody"); err != nil || others != nil {
		t.Errorf("Rights(somebody) = %v, %v, want none", others, err)
	}
}

// rule N12: the ConfigMap of the setting needs no right beyond those of records.
func TestTheWorkerMayReadTheRangesOfClouds(t *testing.T) {
	settings, err := os.ReadFile("settings.env")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(settings), "\nSQUALL_CLOUD_RANGES=")
	namespace, name, _ := strings.Cut(strings.Fields(rest + " ")[0], "/")
	if !found || name == "" {
		t.Fatalf("settings.env names no ConfigMap: %q", rest)
	}
	rights, err := Rights("squall-worker")
	if err != nil {
		t.Fatal(err)
	}
	var where []string
	for _, right := range rights {
		if right.Resource == "configmaps" && right.Verb == "get" {
			where = append(where, right.Namespace)
		}
	}
	if !slices.Equal(where, []string{namespace}) {
		t.Errorf("the worker may get ConfigMaps in %q, want only in %q, where the setting's is", where, namespace)
	}
}
