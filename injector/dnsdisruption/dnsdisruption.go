//go:build linux

// Package dnsdisruption falsifies DNS answers to a pod. It redirects the pod's questions to
// a responder of its own, which answers those that match a record and passes the others to
// their true resolver. It promises to redirect only such questions. The redirect ends with
// the injector, also when it is killed, and Clean leaves no connection on it.
package dnsdisruption

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/dnsdisruption/answer"
	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/injector/dnsdisruption/responder"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// defaultPort is the port of DNS servers, unless the disruption sets another.
const defaultPort = 53

// Injector answers the questions of one target falsely.
type Injector struct {
	params  v1beta1.DNSDisruption
	target  *target.Target
	journal *journal.Journal

	active []redirected
	search []string // the domains of Inject
	notes  []string
}

// redirected is one network namespace of the target with what is in force there.
type redirected struct {
	netns     *os.File
	tracked   redirect.Tracked
	responder *responder.Responder
	table     *redirect.Table
}

// New makes an injector. It does nothing yet.
func New(params v1beta1.DNSDisruption, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{params: params, target: t, journal: j}
}

// Inject redirects the questions of the pod and answers them, until Clean or the
// end of the process. It changes nothing when it fails.
func (i *Injector) Inject(ctx context.Context) error {
	netnses, err := i.plan()
	if err != nil {
		return fmt.Errorf("dns disruption: %w; nothing was changed", err)
	}
	search, err := i.searchDomains()
	if err != nil {
		i.notes = append(i.notes, fmt.Sprintf("names are matched without the pod's search domains: %v", err))
	}
	i.search = search
	answers, err := answer.New(i.params.Records, search)
	if err != nil {
		return fmt.Errorf("dns disruption: %w; nothing was changed", err)
	}
	for _, netns := range netnses {
		if err := i.redirect(netns, answers); err != nil {
			return errors.Join(fmt.Errorf("dns disruption: %w; nothing was changed", err), i.Clean(ctx))
		}
	}
	return nil
}

// Moved finds new search domains in the pod's resolver files.
func (i *Injector) Moved(context.Context) (string, error) {
	search, err := i.searchDomains()
	if err != nil || slices.Equal(search, i.search) {
		return "", nil // without the files, the known domains are the best guess
	}
	return "the search domains are now " + strings.Join(search, ", "), nil
}

// Notes lists what could not be done although the injection succeeded.
func (i *Injector) Notes() []string { return i.notes }

// Clean removes what Inject added: the redirect, then the connections on it, and last the
// responder. After the death of the process that injected, Clean only has to free the
// connections in the journal. It is idempotent and continues after an error. For a target
// that is gone it returns nil.
func (i *Injector) Clean(ctx context.Context) error {
	var errs []error
	var freed redirect.Sockets
	for _, r := range i.active {
		if err := r.end(ctx); err != nil {
			errs = append(errs, err)
			continue
		}
		freed = append(freed, r.tracked.Sockets...)
	}
	i.active = nil
	netnses, err := i.target.Netnses()
	errs = append(errs, err)
	for _, netns := range netnses {
		sockets, err := i.noted(netns.NetnsID)
		errs = append(errs, err)
		others := slices.DeleteFunc(sockets, func(s redirect.Socket) bool { return slices.Contains(freed, s) })
		if len(others) > 0 {
			errs = append(errs, i.free(netns, others))
		}
	}
	errs = slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, target.ErrGone) })
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean dns disruption: %w", err)
	}
	return nil
}

// Outlasts is true as long as the pod keeps its network namespace.
func (i *Injector) Outlasts(renewed *target.Target) bool { return i.target.SameNetns(renewed) }

// plan finds the network namespaces of the pod. It refuses a node's namespace: all pods in
// it, and the node itself, would get the false answers.
func (i *Injector) plan() ([]target.Netns, error) {
	netnses, err := i.target.Netnses()
	if err != nil {
		return nil, err
	}
	for _, netns := range netnses {
		shared, err := i.target.SharesNodeNetwork(netns.NetnsID)
		if err != nil {
			return nil, err
		}
		if shared {
			t := i.target.Injection.Target
			return nil, fmt.Errorf("pod %s/%s shares the network of node %s, whose names would be falsified too: choose pods without hostNetwork",
				t.Namespace, t.Name, t.NodeName)
		}
	}
	return netnses, nil
}

// redirect leads one namespace to the responder. The journal first gets everything that
// would stay after a SIGKILL.
func (i *Injector) redirect(netns target.Netns, answers *answer.Answers) (err error) {
	r := redirected{}
	if r.netns, err = target.OpenNetns(netns.Path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.end(context.Background()))
		}
	}()
	if r.responder, err = responder.Listen(r.netns, i.networks(), i.port(), answers); err != nil {
		return err
	}
	r.tracked = redirect.Tracked{Netns: r.netns, Port: i.port(), Sockets: r.responder.Sockets()}
	if err = i.note(netns.NetnsID, r.tracked.Sockets); err != nil {
		return err
	}
	r.responder.Serve()
	if r.table, err = redirect.Install(r.netns, redirect.TableOf(i.target.Injection), i.port(), r.tracked.Sockets); err != nil {
		return i.refused(err)
	}
	if err = r.tracked.FreeOthers(); err != nil {
		return err
	}
	i.active = append(i.active, r)
	return nil
}

// end is called once. The responder answers as long as connections lead to it.
func (r redirected) end(ctx context.Context) error {
	var errs []error
	if r.table != nil {
		errs = append(errs, r.table.Remove())
	}
	if r.responder != nil {
		r.responder.Drain(ctx)
		if r.tracked.Netns != nil {
			errs = append(errs, r.tracked.FreeRedirected())
		}
		errs = append(errs, r.responder.Close())
	}
	if r.table != nil {
		errs = append(errs, r.table.Close())
	}
	return errors.Join(append(errs, r.netns.Close())...)
}

// free forgets the connections on the redirect of a process that is gone.
func (i *Injector) free(netns target.Netns, sockets redirect.Sockets) error {
	file, err := target.OpenNetns(netns.Path)
	if err != nil {
		return err
	}
	defer file.Close()
	return redirect.Tracked{Netns: file, Port: i.port(), Sockets: sockets}.FreeRedirected()
}

func (i *Injector) port() uint16 { return uint16(cmp.Or(i.params.Port, defaultPort)) }

func (i *Injector) networks() []string {
	switch i.params.Protocol {
	case "udp", "tcp":
		return []string{i.params.Protocol}
	}
	return []string{"udp", "tcp"}
}
