package v1beta1

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Each pair of kinds has its row, whichever comes first, and each row a pair.
func TestEveryPairOfKindsHasItsRow(t *testing.T) {
	used := map[string]bool{}
	for _, a := range kindTable {
		for _, b := range kindTable {
			row := Stack(a.Kind, b.Kind)
			if other := Stack(b.Kind, a.Kind); row.How == "" || row.How != other.How || row.Refused != other.Refused {
				t.Errorf("%s and %s: %+v, the other way round %+v", a.Kind, b.Kind, row, other)
			}
			if row.Refused != (a.Kind == b.Kind) {
				t.Errorf("%s and %s: refused %t, want the same kind alone refused", a.Kind, b.Kind, row.Refused)
			}
			used[row.How] = true
		}
	}
	for _, row := range stackingTable {
		if !used[row.How] {
			t.Errorf("no pair of kinds is what %+v is about", row)
		}
	}
}

func TestRefusesNamesTheKindsInCommon(t *testing.T) {
	ours, theirs := Kinds{KindCPUPressure, KindNetwork}, Kinds{KindDNS, KindNetwork}
	if got := ours.Refuses(theirs); !slices.Equal(got, Kinds{KindNetwork}) {
		t.Errorf("Refuses = %v, want the network disruption", got)
	}
	if got := ours.Refuses(Kinds{KindDNS}); len(got) > 0 {
		t.Errorf("Refuses = %v, want none", got)
	}
}

// The page for users is about the same rows in the same words.
func TestPageOfKindsHasTheTableOfStacking(t *testing.T) {
	page, err := os.ReadFile("../../docs/kinds/README.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(kinds []Kind) string {
		var quoted []string
		for _, kind := range kinds {
			quoted = append(quoted, "`"+string(kind)+"`")
		}
		return strings.Join(quoted, " and ")
	}
	table := "| two disruptions | on one target |\n|---|---|\n"
	for _, row := range stackingTable {
		pair := "any other two kinds"
		switch {
		case row.Same:
			pair = "the same kind twice"
		case len(row.Kinds) == 1:
			pair = names(row.Kinds) + " and any other kind"
		case len(row.Kinds) == 2:
			pair = names(row.Kinds)
		}
		table += fmt.Sprintf("| %s | %s |\n", pair, row.How)
	}
	if !strings.Contains(string(page), table) {
		t.Errorf("docs/kinds/README.md does not have this table:\n%s", table)
	}
}
