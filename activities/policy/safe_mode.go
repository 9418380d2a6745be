package policy

import (
	"errors"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Thresholds bound the targets of a disruption in safe mode, in percent of the pods of
// its namespace, and of the cluster's pods, or nodes.
type Thresholds struct{ Namespace, Cluster int }

// Values of the worker's settings namespace-opt-in and safe-mode.
const (
	SwitchOff     = "off"
	SwitchWarn    = "warn"
	SwitchEnforce = "enforce"
)

// CheckSwitch refuses any other value of these settings.
func CheckSwitch(value string) error {
	switch value {
	case SwitchOff, SwitchWarn, SwitchEnforce:
		return nil
	}
	return errors.New("want off, warn or enforce")
}

// DefaultThresholds hold unless the operator sets others.
var DefaultThresholds = Thresholds{Namespace: 80, Cluster: 66}

// Of returns the thresholds for one disruption, which may set its own.
func (t Thresholds) Of(unsafe *v1beta1.UnsafeMode) Thresholds {
	if unsafe == nil || unsafe.Config == nil || unsafe.Config.CountTooLarge == nil {
		return t
	}
	if own := unsafe.Config.CountTooLarge.NamespaceThreshold; own != nil {
		t.Namespace = *own
	}
	if own := unsafe.Config.CountTooLarge.ClusterThreshold; own != nil {
		t.Cluster = *own
	}
	return t
}

// Population is the number of pods in the disruption's namespace and in the cluster,
// and of nodes.
type Population struct{ Namespace, Cluster, Nodes int }

// TooMany returns why safe mode refuses a disruption that wants so many targets; empty
// if it does not, or if unsafeMode overrides it.
func (t Thresholds) TooMany(d *v1beta1.Disruption, wanted int, of Population) string {
	if unsafe := d.Spec.UnsafeMode; unsafe != nil && (unsafe.DisableAll || unsafe.DisableCountTooLarge) {
		return ""
	}
	t = t.Of(d.Spec.UnsafeMode)
	const remedy = ": want a smaller count; unsafeMode.disableCountTooLarge or config.countTooLarge allow it, which needs a right"
	over := func(all, percent int, what string) string {
		if wanted*100 <= max(all, wanted)*percent {
			return ""
		}
		return fmt.Sprintf("%d of the %d %s are more than %d %%", wanted, max(all, wanted), what, percent) + remedy
	}
	if d.Spec.Level == v1beta1.LevelNode {
		return over(of.Nodes, t.Cluster, "nodes")
	}
	if why := over(of.Namespace, t.Namespace, "pods of namespace "+d.Namespace); why != "" {
		return why
	}
	return over(max(of.Cluster, of.Namespace), t.Cluster, "pods of the cluster")
}

// SafeMode is the rule by which safe mode denies a disruption.
func SafeMode(why string) Rule { return Rule{text: "safe mode: " + why} }
