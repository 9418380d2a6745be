//go:build linux

// Package grpcdisruption makes a gRPC application answer some calls with errors or empty
// messages, by its built-in listener. It promises to refuse an application without a
// listener, or one that is disrupted already, before anything is changed. Every disruption
// is in the journal before the application gets it, as it continues when the injector is
// killed. A process without capabilities reads the answers of the application.
package grpcdisruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/listener/protocol"
)

// The states of a listener in the journal.
const (
	vacant   = "no endpoint altered"
	ours     = "altered by this disruption"
	notOurs  = "altered by another program"
	page     = "docs/kinds/grpc-disruption.md"
	callTime = 10 * time.Second
	// processTime is how much longer the process of a call may run: it takes time
	// to start on a busy node.
	processTime = 10 * time.Second
)

// Injector disrupts the application of one target.
type Injector struct {
	params   v1beta1.GRPCDisruption
	target   *target.Target
	journal  *journal.Journal
	accepted int // applications that accepted the disruption
}

// New makes an injector. It does nothing yet.
func New(params v1beta1.GRPCDisruption, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{params: params, target: t, journal: j}
}

// Inject sends the alterations to the application. An application that does not listen is
// target.ErrGone: it has ended, or has not started yet.
func (i *Injector) Inject(ctx context.Context) error {
	netnses, err := i.plan(ctx)
	if err != nil {
		return fmt.Errorf("grpc disruption: %w; nothing was changed", err)
	}
	for _, netns := range netnses {
		if err := i.disrupt(ctx, netns); err != nil {
			return errors.Join(fmt.Errorf("grpc disruption: %w", err), i.Clean(ctx))
		}
	}
	return nil
}

// Clean resets the alterations of Inject in the application. It uses only the journal, is
// idempotent and continues after an error. An application that is gone, or was replaced,
// has no alterations.
func (i *Injector) Clean(ctx context.Context) error {
	var errs []error
	for _, netns := range i.disrupted(&errs) {
		if err := i.reset(ctx, netns); !forgotten(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean grpc disruption: %w", err)
	}
	return nil
}

// Left asks the listeners in the journal whether anything is altered.
func (i *Injector) Left(ctx context.Context) ([]string, error) {
	var left []string
	var errs []error
	for _, netns := range i.disrupted(&errs) {
		err := i.ask(ctx, netns)
		switch {
		case errors.Is(err, errTaken):
			left = append(left, i.objectOf(netns.NetnsID))
		case !forgotten(err):
			errs = append(errs, err)
		}
	}
	return left, errors.Join(errs...)
}

// Probe checks whether an injection would be refused. Without a target there is no
// application to ask.
func (i *Injector) Probe() (string, error) {
	if len(i.target.Containers) == 0 {
		return "grpc disruption needs nothing of the kernel, and a listener in the application: " + page, nil
	}
	if _, err := i.plan(context.Background()); err != nil {
		return "", fmt.Errorf("grpc disruption: %w", err)
	}
	return "the application has a listener, which alters nothing", nil
}

// plan finds the network namespaces in which the application has an unused listener, and
// refuses all others. It changes nothing.
func (i *Injector) plan(ctx context.Context) ([]target.Netns, error) {
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
			return nil, fmt.Errorf("%s shares the network of node %s, where port %d may be another's: choose pods without hostNetwork",
				i.pod(), i.target.Injection.Target.NodeName, i.params.Port)
		}
		if err := i.ask(ctx, netns); err != nil {
			return nil, err
		}
	}
	return netnses, nil
}

// disrupt sends the disruption to one application. It first records that in the journal. If
// another program was faster, it corrects the record.
func (i *Injector) disrupt(ctx context.Context, netns target.Netns) error {
	object := i.objectOf(netns.NetnsID)
	if err := i.journal.Write(journal.Change{Object: object, Before: vacant, After: ours}); err != nil {
		return err
	}
	err := i.sendDisrupt(ctx, netns, i.spec())
	if err == nil {
		i.accepted++
	}
	if errors.Is(err, errTaken) {
		err = errors.Join(err, i.journal.Write(journal.Change{Object: object, Before: notOurs, After: notOurs}))
	}
	return err
}

// spec returns the message to the listener: each endpoint once, in the given order. The
// listener distributes the shares that are not given.
func (i *Injector) spec() protocol.Spec {
	var spec protocol.Spec
	for _, e := range i.params.Endpoints {
		at := slices.IndexFunc(spec.Endpoints, func(known protocol.Endpoint) bool { return known.TargetEndpoint == e.TargetEndpoint })
		if at < 0 {
			at = len(spec.Endpoints)
			spec.Endpoints = append(spec.Endpoints, protocol.Endpoint{TargetEndpoint: e.TargetEndpoint})
		}
		spec.Endpoints[at].Alterations = append(spec.Endpoints[at].Alterations, protocol.Alteration{
			ErrorToReturn: e.ErrorToReturn, OverrideToReturn: e.OverrideToReturn, QueryPercent: int32(e.QueryPercent),
		})
	}
	return spec
}

// disrupted returns the network namespaces with an application that we disrupted, by the
// journal. It omits those that are gone.
func (i *Injector) disrupted(errs *[]error) []target.Netns {
	last := map[string]string{}
	for _, change := range i.journal.Changes() {
		last[change.Object] = change.After
	}
	netnses, err := i.target.Netnses()
	if err != nil && !errors.Is(err, target.ErrGone) {
		*errs = append(*errs, err)
	}
	return slices.DeleteFunc(netnses, func(netns target.Netns) bool { return last[i.objectOf(netns.NetnsID)] != ours })
}

// forgotten is true for results after which an application cannot have our alterations:
// success, no application, and one without a listener.
func forgotten(err error) bool {
	return err == nil || errors.Is(err, target.ErrGone) || status.Code(err) == codes.Unimplemented
}

func (i *Injector) objectOf(id target.NetnsID) string {
	return fmt.Sprintf("answers of the gRPC application on port %d in network namespace %d:%d", i.params.Port, id.Dev, id.Ino)
}

func (i *Injector) pod() string {
	t := i.target.Injection.Target
	return fmt.Sprintf("pod %s/%s", t.Namespace, t.Name)
}
