package v1beta1

import "slices"

// StackingRow says what becomes of two disruptions that act on one target. Which
// of them came first does not matter, unless How says so.
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
	// How says what happens, or who refuses it and in which way.
	How string
}

// stackingTable has a row for every pair of kinds; the first that is about a pair
// counts. Nothing ever takes the place of what another disruption did.
var stackingTable = []StackingRow{
	{Same: true, Refused: true,
		How: "refused: the second leaves the target out when it chooses, and says who has it; an injector that meets the journal of the first changes nothing and names it"},
	{Kinds: []Kind{KindPodReplacement},
		How: "the pod is deleted; the other disruption has lost that target, and takes another one unless its targets are static"},
	{Kinds: []Kind{KindNodeFailure},
		How: "the node ends, and with it all that was injected there; the cleaning of the other disruption waits until the node is back"},
	{Kinds: []Kind{KindContainerFailure},
		How: "the container ends; the other disruption is injected again in the one that the kubelet starts in its place, or stays where it acts on the whole pod"},
	{Kinds: []Kind{KindDNS, KindNetwork},
		How: "both act: questions, the false answers and what is asked of the true resolver are packets of the target, and are disturbed like any others"},
	{Kinds: []Kind{KindGRPC, KindNetwork},
		How: "both act: calls and their answers are packets of the target, and are disturbed like any others; what the injector tells the application passes"},
	{Kinds: []Kind{KindDiskFailure, KindDiskPressure},
		How: "both act; a path that disk failure has covered by a mount has no disk any more, and disk pressure of that very path is refused on the target"},
	{How: "both act, each as if it were alone"},
}

// StackingTable returns the rows for all pairs of kinds, the first that is about a
// pair before the others.
func StackingTable() []StackingRow { return slices.Clone(stackingTable) }

// Stack says what becomes of two kinds of different disruptions on one target.
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

// Refuses are those of other kinds with which these cannot share a target.
func (k Kinds) Refuses(others Kinds) Kinds {
	return slices.DeleteFunc(slices.Clone(others), func(other Kind) bool {
		return !slices.ContainsFunc(k, func(kind Kind) bool { return Stack(kind, other).Refused })
	})
}
