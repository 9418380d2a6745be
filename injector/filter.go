//go:build linux

package main

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
)

// filter selects the disruptions, targets and kinds that a command covers. The zero value
// selects all.
type filter struct {
	disruptions, except []string
	target              string
	kinds               []v1beta1.Kind
}

// flags registers the flags that clean and audit share. An unknown kind is refused: it
// would match nothing, and the result would look clean.
func (f *filter) flags(flags *flag.FlagSet, known map[v1beta1.Kind]entry) {
	flags.Func("disruption", "only the disruption with this `UID`; may be given several times", func(uid string) error {
		f.disruptions = append(f.disruptions, uid)
		return nil
	})
	flags.Func("except", "all but the disruptions with these `UIDs`, separated by commas", func(uids string) error {
		f.except = append(f.except, strings.Split(uids, ",")...)
		return nil
	})
	flags.Func("kind", "only injections of this `kind`; may be given several times", func(name string) error {
		kind := v1beta1.Kind(name)
		if _, found := known[kind]; !found {
			return fmt.Errorf("want one of %v", slices.Sorted(maps.Keys(known)))
		}
		f.kinds = append(f.kinds, kind)
		return nil
	})
}

func (f filter) has(disruption, target types.UID, kind v1beta1.Kind) bool {
	return (len(f.disruptions) == 0 || slices.Contains(f.disruptions, string(disruption))) &&
		(f.target == "" || string(target) == f.target) &&
		!slices.Contains(f.except, string(disruption)) && f.hasKind(kind)
}

func (f filter) hasKind(kind v1beta1.Kind) bool {
	return len(f.kinds) == 0 || slices.Contains(f.kinds, kind)
}

func (f filter) of(entries []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(entries, func(e journal.Entry) bool {
		return !f.has(e.Injection.Disruption.UID, e.Injection.Target.UID, e.Injection.Kind)
	})
}
