// Package inspect has the commands that only read: list, status and history.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/cli/cluster"
	"github.com/squall-chaos/squall/cli/console"
	"github.com/squall-chaos/squall/cli/view"
)

// listing is what squall list shows, and how.
type listing struct {
	console.ClusterFlags
	kind                        console.Kind
	selector                    labels.Selector
	labels                      string
	stuck, scenarios, noHeaders bool
	watch                       bool
	output                      console.Format
}

// call is one call of a command of this package.
type call struct{ console.Streams }

// List is squall list.
func List(s console.Streams) *cobra.Command {
	c := call{s}
	var l listing
	list := &cobra.Command{
		Use:   "list [KIND]",
		Short: "List disruptions, stuck ones first, or objects of another kind",
		Long: "List disruptions, those first that wait for a person. KIND is Disruption,\n" +
			"DisruptionScenario, DisruptionCron, DisruptionRollout or DisruptionPolicy, in\n" +
			"any form that kubectl takes, or without the word disruption.",
		Example: "  squall list\n  squall list -A --stuck\n  squall list crons -A\n  squall list -w\n  squall list scenarios -o wide\n  squall list -l team=shop --no-headers\n" +
			"  squall list -A -o json | jq -r '.items[].metadata.name'",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := l.read(args); err != nil {
				return err
			}
			client, err := l.Connect(c.Streams)
			if err != nil {
				return err
			}
			if l.watch {
				return c.listAndWatch(cmd.Context(), client, l)
			}
			return c.listOnce(cmd.Context(), client, l)
		},
	}
	l.Add(list)
	l.AddEverywhere(list)
	list.Flags().BoolVar(&l.stuck, "stuck", false, "only disruptions that wait for a person's decision")
	list.Flags().BoolVar(&l.scenarios, "scenarios", false, "the same as the kind scenarios")
	list.Flags().StringVarP(&l.labels, "selector", "l", "", "only those with these labels, such as team=shop")
	list.Flags().BoolVar(&l.noHeaders, "no-headers", false, "leave out the header of the table")
	list.Flags().BoolVarP(&l.watch, "watch", "w", false, "after the list, print each object that changes, until Ctrl-C")
	l.output.Flag(list, "json", "yaml", "wide")
	for _, kind := range console.Kinds() {
		list.ValidArgs = append(list.ValidArgs, kind.Plural)
	}
	return list
}

// read takes the kind from the command line, and refuses flags that exclude each other.
func (l *listing) read(args []string) (err error) {
	name := cluster.Disruptions.Name
	switch {
	case l.scenarios && len(args) > 0:
		return console.Usage("--scenarios and the kind %s: leave one out", args[0])
	case l.scenarios:
		name = cluster.Scenarios.Name
	case len(args) > 0:
		name = args[0]
	}
	if l.kind, err = console.KindOf(name); err != nil {
		return err
	}
	if l.stuck && l.kind.Name != cluster.Disruptions.Name {
		return console.Usage("--stuck is about disruptions: leave it out, or leave out the kind %s", l.kind.Plural)
	}
	if l.selector, err = labels.Parse(l.labels); err != nil {
		return console.Usage("-l %s: %v; write it as in kubectl, such as -l team=shop", l.labels, err)
	}
	return nil
}

// has is true for an object that the command line selects.
func (l *listing) has(object cluster.Object) bool {
	d, isDisruption := object.(*v1beta1.Disruption)
	return l.selector.Matches(labels.Set(object.GetLabels())) && (!l.stuck || isDisruption && view.Stuck(d))
}

// rows are the table of objects.
func (l *listing) rows(now time.Time, objects []cluster.Object) [][]view.Cell {
	table := view.List{Now: now, Namespaces: l.Everywhere, Wide: l.output == console.Wide, NoHeaders: l.noHeaders}
	return table.Body(presentationOf(l.kind).rows(table, objects))
}

func (c call) listOnce(ctx context.Context, client *cluster.Client, l listing) error {
	found, err := client.List(ctx, l.kind.Resource, l.Namespace(client))
	if err != nil {
		return err
	}
	found.Items = slices.DeleteFunc(found.Items, func(object cluster.Object) bool { return !l.has(object) })
	switch {
	case l.output == console.JSON || l.output == console.YAML:
		return l.output.Write(c.Out, found)
	case len(found.Items) == 0:
		_, _ = fmt.Fprintln(c.Err, l.none(client))
		return nil
	}
	_, _ = fmt.Fprint(c.Out, view.Grid(l.rows(c.Now(), found.Items), c.Tone))
	return nil
}

// listAndWatch prints the list, and then a row for each change until ctx ends.
func (c call) listAndWatch(ctx context.Context, client *cluster.Client, l listing) error {
	var columns view.Columns
	var failed error
	show := func(gone bool, objects ...cluster.Object) {
		objects = slices.DeleteFunc(objects, func(object cluster.Object) bool { return !l.has(object) })
		switch {
		case len(objects) == 0 || failed != nil:
		case l.output == console.JSON || l.output == console.YAML:
			for _, object := range objects {
				failed = errors.Join(failed, l.output.WriteNext(c.Out, object))
			}
		default:
			rows := l.rows(c.Now(), objects)
			if gone {
				l.deleted(rows)
			}
			_, failed = fmt.Fprint(c.Out, columns.Grid(rows, c.Tone))
			l.noHeaders = true
		}
	}
	err := client.Follow(ctx, l.kind.Resource, l.Namespace(client), cluster.ListWatcher{
		Listed:  func(objects []cluster.Object) { show(false, objects...) },
		Changed: func(object cluster.Object, gone bool) { show(gone, object) },
		Away:    func(err error) { _, _ = fmt.Fprintln(c.Err, client.Unreachable(err)) },
	})
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(failed, err)
}

// deleted replaces the phase in rows by Deleted.
func (l *listing) deleted(rows [][]view.Cell) {
	at := 1
	if l.Everywhere && !l.kind.ClusterScoped {
		at = 2
	}
	for _, row := range rows {
		if row[0].Tone != view.Quiet { // the header
			row[at] = view.Cell{Text: "Deleted", Tone: view.Quiet}
		}
	}
}

// none is the message of a list without objects.
func (l *listing) none(client *cluster.Client) string {
	what := "no "
	if l.stuck {
		what += "stuck "
	}
	if l.kind.ClusterScoped {
		return what + l.kind.Singular + " in the cluster"
	}
	return what + l.kind.Singular + " " + l.Where(client)
}
