//go:build linux

package dnsdisruption

import (
	"errors"
	"fmt"

	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/resolve"
	"github.com/squall-chaos/squall/injector/target"
)

// objectOf is the journal's name for the redirect of a namespace.
func (i *Injector) objectOf(id target.NetnsID) string {
	return fmt.Sprintf("way of port %d in network namespace %d:%d", i.port(), id.Dev, id.Ino)
}

// note records the sockets to which the questions of a namespace lead: tracked connections
// keep them when the process is killed.
func (i *Injector) note(id target.NetnsID, sockets redirect.Sockets) error {
	return i.journal.Write(journal.Change{Object: i.objectOf(id), Before: "to the resolvers", After: sockets.String()})
}

// noted returns the sockets in the journal, including those of earlier processes.
func (i *Injector) noted(id target.NetnsID) (redirect.Sockets, error) {
	var all redirect.Sockets
	var errs []error
	for _, change := range i.journal.Changes() {
		if change.Object != i.objectOf(id) {
			continue
		}
		sockets, err := redirect.ParseSockets(change.After)
		if err != nil {
			errs = append(errs, fmt.Errorf("journal %s, %s: %w", i.journal.Path(), change.Object, err))
		}
		all = append(all, sockets...)
	}
	return all, errors.Join(errs...)
}

// searchDomains returns the domains with which the pod's resolver completes names: those of
// all its containers, which normally are the same.
func (i *Injector) searchDomains() ([]string, error) {
	var domains []string
	var errs []error
	for _, container := range i.target.Containers {
		if container.Check() != nil {
			continue
		}
		found, err := resolve.SearchDomains(container.Root())
		if err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", container.Name, err))
		}
		domains = append(domains, found...)
	}
	if len(domains) > 0 {
		return domains, nil
	}
	return nil, errors.Join(errs...)
}
