package main

import (
	"flag"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/injector/journal"
)

// choice says of which disruptions and targets a command is to speak. The zero
// value chooses all.
type choice struct {
	disruption, target string
	except             []string
}

func (c *choice) flags(flags *flag.FlagSet) {
	flags.StringVar(&c.disruption, "disruption", "", "only the disruption with this `UID`")
	flags.Func("except", "all but the disruptions with these `UIDs`, separated by commas", func(uids string) error {
		c.except = append(c.except, strings.Split(uids, ",")...)
		return nil
	})
}

func (c choice) has(disruption, target types.UID) bool {
	return (c.disruption == "" || string(disruption) == c.disruption) &&
		(c.target == "" || string(target) == c.target) &&
		!slices.Contains(c.except, string(disruption))
}

func (c choice) of(entries []journal.Entry) []journal.Entry {
	return slices.DeleteFunc(entries, func(e journal.Entry) bool {
		return !c.has(e.Injection.Disruption.UID, e.Injection.Target.UID)
	})
}
