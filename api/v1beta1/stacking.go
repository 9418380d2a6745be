package v1beta1

import "slices"

// StackingRow is the result of two disruptions that act on one target. Their order does
// not matter, unless How mentions it.
//
// +kubebuilder:object:generate=false
type StackingRow struct {
	// Kinds are the pairs that the row is about: two of different kinds, one for
	// all pairs with that kind, none for all others.
	Kinds []Kind
	// Same is true for the row about one kind twice.
	Same bool
	// Refused is true when the second disruption does not get the target.
	Refused bool
	// How describes the result, or the component that refuses and in which way.
	How string
}

// stackingTable has a row for every pair of kinds; the first that is about a pair
// counts. Nothing ever takes the place of what another disruption did.
var stackingTable = []StackingRow{
	{Same: true, Refused: true,
		How: "refused: the second disruption skips the target and reports which disruption has it"},
	{Kinds: []Kind{KindPodReplacement},
		How: "the pod is deleted. The other disruption replaces that target, unless its targets are static"},
	{Kinds: []Kind{KindNodeFailure},
		How: "the node ends, with everything injected there. The clean-up of the other disruption waits until the node is back"},
	{Kinds: []Kind{KindContainerFailure},
		How: "the container ends. The other fault is injected again into the restarted container, or stays if it acts on the whole pod"},
	{Kinds: []Kind{KindDNS, KindNetwork},
		How: "both act. DNS queries and answers are packets of the target too, so the network fault disrupts them"},
	{Kinds: []Kind{KindGRPC, KindNetwork},
		How: "both act. Calls and answers are packets of the target, so the network fault disrupts them; requests of the injector pass"},
	{Kinds: []Kind{KindDiskFailure, KindDiskPressure},
		How: "both act. If disk failure covers a path with a mount, disk pressure of the same path is refused on the target"},
	{How: "both act, independently of each other"},
}

// StackingTable returns the rows for all pairs of kinds, the first that is about a
// pair before the others.
func StackingTable() []StackingRow { return slices.Clone(stackingTable) }

// Stack is the result of two kinds of different disruptions on one target.
func Stack(a, b Kind) StackingRow {
	at := slices.IndexFunc(stackingTable, func(row StackingRow) bool { return row.about(a, b) })
	return stackingTable[at]
}

func (r StackingRow) about(a, b Kind) bool {
	switch {
	case r.Same:
		return a == b
	case len(r.Kinds) == 1:
		return slices.Contains([]Kind{a, b}, r.Kinds[0])
	case len(r.Kinds) == 2:
		return a != b && slices.Contains(r.Kinds, a) && slices.Contains(r.Kinds, b)
	}
	return true
}

// Refuses are the other kinds with which these cannot share a target.
func (k Kinds) Refuses(others Kinds) Kinds {
	return slices.DeleteFunc(slices.Clone(others), func(other Kind) bool {
		return !slices.ContainsFunc(k, func(kind Kind) bool { return Stack(kind, other).Refused })
	})
}
