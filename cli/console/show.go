package console

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/view"
)

// Tone paints a text of package view.
func (s Streams) Tone(tone view.Tone, text string) string {
	switch tone {
	case view.Good:
		return s.Paint(Green, text)
	case view.Careful:
		return s.Paint(Yellow, text)
	case view.Bad:
		return s.Paint(Red, text)
	case view.Quiet:
		return s.Paint(Dim, text)
	}
	return text
}

// Lines writes facts below one another.
func (s Streams) Lines(lines []view.Line) {
	for _, line := range lines {
		_, _ = fmt.Fprintf(s.Out, "  %s  %s\n", s.Paint(Bold, fmt.Sprintf("%-9s", line.Name)), s.Tone(line.Tone, view.Printable(line.Text)))
	}
}

// Describe writes the state of a disruption, with all its targets if everything is true.
func (s Streams) Describe(d *v1beta1.Disruption, everything bool) {
	_, _ = fmt.Fprintf(s.Out, "%s\n", s.Paint(Bold, d.Namespace+"/"+d.Name))
	s.Lines(view.Disruption(d, time.Now(), everything))
}

// DescribeStop writes the state of an emergency stop.
func (s Streams) DescribeStop(stop *v1beta1.EmergencyStop) {
	clean := s.Paint(Yellow, "not clean yet")
	if meta.IsStatusConditionTrue(stop.Status.Conditions, v1beta1.ConditionClean) {
		clean = s.Paint(Green, "the cluster is clean")
	}
	_, _ = fmt.Fprintf(s.Out, "%s: %s; %d stopped, %d still being cleaned, %d injectors\n",
		s.Paint(Red, stop.Ending()), clean, stop.Status.Stopped, stop.Status.Cleaning, stop.Status.Injectors)
	for _, condition := range stop.Status.Conditions {
		if condition.Type == v1beta1.ConditionClean && condition.Status != metav1.ConditionTrue && condition.Message != "" {
			_, _ = fmt.Fprintf(s.Out, "  %s\n", condition.Message)
		}
	}
}
