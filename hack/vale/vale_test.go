// Package vale holds the rules by which Vale checks the language of pages.
package vale

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// finding is what Vale reports of a line of a page.
type finding struct {
	Check   string
	Line    int
	Message string
}

// bad are sentences that break one rule each.
var bad = map[string][]string{
	"Squall.Length": {
		strings.Repeat("word ", 25) + "end.",
		"- " + strings.Repeat("word ", 25) + "end.",
		"Run `squall plan` " + strings.Repeat("word ", 23) + "end.",
	},
	"Squall.Openings": {
		"What it injects is a fault.",
		"- **What** a worker holds stays.",
		"Whatever it injects is a fault.",
		"Who approves a step is free.",
		"Those with a label stay.",
		"That of which this page is a part stays.",
		"One that fails stays.",
		"It stays. What it injects is a fault. Is it?",
	},
	"Squall.Pronouns": sentences("he", "him", "his", "himself", "nobody", "somebody", "everybody", "anybody",
		"a whoever", "whom", "whomever", "Nobody"),
	"Squall.Words": sentences("tell", "tells", "telling", "told", "is told", "say", "says", "saying", "said",
		"hear", "hears", "heard", "anew", "all the same", "by itself", "by themselves"),
	"Squall.Terms": sentences("let go", "lets go of", "lets it go", "letting the target go",
		"give back", "gives it back", "gave back", "given back", "giving back",
		"take off", "takes it off", "took off", "taken off", "taking the fault off",
		"mend", "mends", "mended", "disturb", "disturbs", "disturbed", "disturbing", "disturbance",
		"hit", "hits", "meet", "meets", "met", "affect", "affects", "affected", "break into", "breaks into",
		"victim", "victims", "experiment", "experiments", "crons", "fault kind", "kind of fault", "each kind",
		"bridge", "bridges", "way out", "reference product", "Reference product"),
}

// good breaks no rule, though it comes close.
const good = `# What is Squall?

Squall injects faults into targets, and cleans them up. You choose the targets with a selector.
Who may disrupt a target?

## What it does

The controller (crdbridge) reports an event. This page, the history and a sale are fine: they contain ` + "`he`" + `.

    tell whoever says so

` + "```" + `
nobody is told
` + "```" + `

- ` + twentyFive + `
- Use ` + "`crons`" + ` and [the page](bridge.md).
`

const twentyFive = "one one one one one two two two two two one one one one one two two two two two one one one one one."

// Each word and opening of the rules is found, by the rule that it breaks.
func TestRulesFindWhatTheyForbid(t *testing.T) {
	var page strings.Builder
	rules := map[int]string{}
	line := 1
	for rule, lines := range bad {
		for _, text := range lines {
			rules[line] = rule
			page.WriteString(text + "\n\n")
			line += 2
		}
	}
	found := map[int]map[string]bool{}
	for _, f := range findings(t, page.String()) {
		if found[f.Line] == nil {
			found[f.Line] = map[string]bool{}
		}
		found[f.Line][f.Check] = true
	}
	for i, text := range strings.Split(page.String(), "\n") {
		if rule := rules[i+1]; rule != "" && (!found[i+1][rule] || len(found[i+1]) != 1) {
			t.Errorf("%q: found %v, want %s alone", text, found[i+1], rule)
		}
	}
}

// Questions, code, links and sentences of 25 words pass.
func TestRulesLetGoodTextPass(t *testing.T) {
	if got := findings(t, good); len(got) > 0 {
		t.Errorf("findings: %+v", got)
	}
}

// A table is checked like all other text.
func TestRulesHoldInTables(t *testing.T) {
	got := findings(t, "| field | effect |\n|---|---|\n| `a` | is told |\n| `b` | "+strings.Repeat("word ", 26)+"|\n")
	if len(got) != 2 || got[0].Check != "Squall.Words" || got[1].Check != "Squall.Length" {
		t.Errorf("findings: %+v, want one of Words and one of Length", got)
	}
}

// sentences is a sentence around each token.
func sentences(tokens ...string) []string {
	var all []string
	for _, word := range tokens {
		all = append(all, "The worker "+word+" today.")
	}
	return all
}

// findings runs Vale on a page, in the way make vale does.
func findings(t *testing.T, page string) []finding {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := filepath.Abs("../../.vale.ini")
	if err != nil {
		t.Fatal(err)
	}
	vale := exec.CommandContext(t.Context(), "go", "tool", "vale", "--config="+config, "--no-global", "--no-exit", "--output=JSON", file)
	vale.Dir = "../tools/vale"
	var stderr bytes.Buffer
	vale.Stderr = &stderr
	out, err := vale.Output()
	if err != nil {
		t.Fatalf("vale: %v: %s%s", err, out, stderr.String())
	}
	var files map[string][]finding
	if err := json.Unmarshal(out, &files); err != nil {
		t.Fatalf("vale printed %s: %v", out, err)
	}
	return files[file]
}
