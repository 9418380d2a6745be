package start

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// Temporal refuses to start a workflow with more than 400 bytes of summary or
// 20,000 of details, and selectors and container names may have any length.
const (
	longestSummary = 200
	longestWhere   = 4 << 10
)

// summary is one line for the workflow's page.
func summary(d *v1beta1.Disruption) string {
	return text.Shorten(fmt.Sprintf("%s on %s of the %s", strings.Join(d.Spec.Kinds().Names(), ", "), count(d.Spec), where(d)), longestSummary)
}

// details is markdown for the workflow's page. Texts of users stand in code spans, so
// that they cannot pass for Squall's own.
func details(d *v1beta1.Disruption) string {
	row := func(name, value string) string { return "| " + name + " | " + code(value) + " |\n" }
	var b strings.Builder
	b.WriteString("| | |\n|---|---|\n")
	b.WriteString(row("Disruption", d.Namespace+"/"+d.Name))
	b.WriteString(row("What", strings.Join(d.Spec.Kinds().Names(), ", ")))
	b.WriteString(row("Where", text.Shorten(where(d), longestWhere)))
	b.WriteString(row("Count", count(d.Spec)))
	b.WriteString(row("Duration", duration(d.Spec)))
	b.WriteString(row("Created", d.CreationTimestamp.UTC().Format("2006-01-02 15:04:05 UTC")))
	fmt.Fprintf(&b, "\nLook: `kubectl -n %s describe disruption %s`\n\nEnd it: `kubectl -n %s delete disruption %s`\n",
		d.Namespace, d.Name, d.Namespace, d.Name)
	return b.String()
}

func where(d *v1beta1.Disruption) string {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{
		MatchLabels: d.Spec.Selector, MatchExpressions: d.Spec.AdvancedSelector,
	})
	if d.Spec.Level == v1beta1.LevelNode {
		return "nodes " + selector
	}
	where := "pods " + selector + " in " + d.Namespace
	if containers := d.Spec.Containers; len(containers) > 0 {
		where += ", containers " + strings.Join(slices.Sorted(slices.Values(containers)), ", ")
	}
	return where
}

func count(spec v1beta1.DisruptionSpec) string {
	if spec.Count == nil {
		return "none"
	}
	return spec.Count.String()
}

func duration(spec v1beta1.DisruptionSpec) string {
	if spec.Duration == nil {
		return "the default"
	}
	return spec.Duration.String()
}

// code is text as a code span in a cell of a markdown table.
func code(text string) string {
	return "`" + strings.NewReplacer("`", "'", "|", "\\|", "\n", " ").Replace(text) + "`"
}
