//go:build linux

package dnsdisruption

import (
	"context"
	"errors"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/injector/target"
)

// Audit lists every table on this node that redirects questions for Squall, of any
// disruption. It searches all network namespaces of the processes below proc. It changes
// nothing. After an error it continues, and returns what it found with the error.
func Audit(ctx context.Context, proc string, _ []v1beta1.Injection) ([]v1beta1.Mark, error) {
	var marks []v1beta1.Mark
	err := target.EachNetns(ctx, proc, func(netns target.Netns) error {
		tables, err := tablesIn(netns)
		for _, table := range tables {
			mark := v1beta1.Mark{Kind: v1beta1.KindDNS, Object: object(netns, table)}
			mark.Disruption.UID, mark.Target = redirect.UIDs(table)
			marks = append(marks, mark)
		}
		return err
	})
	return marks, err
}

// Left lists what of this injection is in the target's network namespaces: its table, the
// sockets in the journal, and the connections that still lead to them. It searches there
// and uses no state of the process.
func (i *Injector) Left(context.Context) ([]string, error) {
	standing, err := i.everywhere(i.standingIn)
	flows, flowsErr := i.everywhere(i.flowsIn)
	return append(standing, flows...), errors.Join(err, flowsErr)
}

// Standing is Left without the connections, which may end at any time.
func (i *Injector) Standing(context.Context) ([]string, error) { return i.everywhere(i.standingIn) }

// everywhere calls look for each network namespace of the target. A namespace that is gone has
// nothing in it.
func (i *Injector) everywhere(look func(target.Netns) ([]string, error)) ([]string, error) {
	netnses, err := i.target.Netnses()
	if errors.Is(err, target.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var left []string
	var errs []error
	for _, netns := range netnses {
		found, err := look(netns)
		left = append(left, found...)
		if !errors.Is(err, target.ErrGone) {
			errs = append(errs, err)
		}
	}
	return left, errors.Join(errs...)
}

func (i *Injector) standingIn(netns target.Netns) ([]string, error) {
	var left []string
	tables, err := tablesIn(netns)
	for _, table := range tables {
		if table == redirect.TableOf(i.target.Injection) {
			left = append(left, object(netns, table))
		}
	}
	sockets, notedErr := i.noted(netns.NetnsID)
	if len(sockets) == 0 {
		return left, errors.Join(err, notedErr)
	}
	listening, listenErr := sockets.Listening(netns.Path)
	for _, socket := range listening {
		left = append(left, fmt.Sprintf("network namespace %d: socket %s", netns.Ino, socket))
	}
	return left, errors.Join(err, notedErr, listenErr)
}

func (i *Injector) flowsIn(netns target.Netns) ([]string, error) {
	sockets, err := i.noted(netns.NetnsID)
	if len(sockets) == 0 {
		return nil, err
	}
	file, openErr := target.OpenNetns(netns.Path)
	if openErr != nil {
		return nil, errors.Join(err, openErr)
	}
	defer file.Close()
	flows, flowsErr := redirect.Tracked{Netns: file, Port: i.port(), Sockets: sockets}.Redirected()
	var left []string
	for _, flow := range flows {
		left = append(left, fmt.Sprintf("network namespace %d: %s", netns.Ino, flow))
	}
	return left, errors.Join(err, flowsErr)
}

func tablesIn(netns target.Netns) ([]string, error) {
	file, err := target.OpenNetns(netns.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return redirect.Tables(file)
}

func object(netns target.Netns, table string) string {
	return fmt.Sprintf("network namespace %d: nftables table inet %s", netns.Ino, table)
}
