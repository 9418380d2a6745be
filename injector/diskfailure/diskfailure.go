//go:build linux

// Package diskfailure makes opens of files below some paths fail. It promises that only
// opens of the target fail, and that none waits for a decision longer than two seconds. No
// open fails any more once the injector or the target's first process has ended, however
// either of them ends.
package diskfailure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/oneline"
	"github.com/squall-chaos/squall/injector/target"
)

// listeners are the processes that answer the kernel, or hold a program that does.
var listeners = child.Family{
	Kind: v1beta1.KindDiskFailure, Command: ListenCommand, Prefix: "squall-disk-failure=", Noun: "listener",
}

// Injector makes opens fail in one target.
type Injector struct {
	params     v1beta1.DiskFailure
	target     *target.Target
	journal    *journal.Journal
	listeners  *child.Children
	notes      []string
	effectLost chan error
	denied     denials
	orders     map[string]order // of the listeners that Inject started, by name of the job
	covers     int              // that Inject mounted
	ways       []way
}

// New returns an injector that has done nothing yet.
func New(params v1beta1.DiskFailure, t *target.Target, j *journal.Journal) *Injector {
	return &Injector{
		params: params, target: t, journal: j, listeners: listeners.Of(t), effectLost: make(chan error, 1), denied: denials{by: map[string]uint64{}},
		ways: allWays(),
	}
}

// Inject starts one listener per container, or one for the whole node, and returns when
// opens fail by all of them. For errors that the kernel does not accept from a listener, it
// mounts covers over the paths instead. Before it changes anything, it refuses an error
// that this kernel cannot give, by name. It also refuses more programs at a hook of the
// node than programsPerHook. After an error a part may be done; Clean undoes it.
func (i *Injector) Inject(ctx context.Context) error {
	i.notes = nil
	p, err := planOf(i.params)
	if err != nil {
		return err
	}
	turn, err := i.awaitTurn(ctx)
	if err != nil {
		return err
	}
	defer turn.Close()
	way, err := i.way(p)
	if err != nil {
		return err
	}
	if _, is := hooks[way]; !is {
		turn.Close() // this way counts nothing: the next injector may continue
	}
	if way == byMount {
		return i.cover(p)
	}
	return i.listenAll(ctx, p, way)
}

// awaitTurn waits until no other injector of this node counts programs, or attaches one,
// not even to probe the kernel.
func (i *Injector) awaitTurn(ctx context.Context) (*os.File, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, turnPatience, fmt.Errorf("it took longer than %s", turnPatience))
	defer cancel()
	return i.journal.AwaitTurn(ctx)
}

// Clean ends the listeners of this disruption on this target, also those that another
// process started. It waits until they are gone, and unmounts its covers. It needs no state
// of Inject, may be called twice, and does nothing if the target is gone.
func (i *Injector) Clean(ctx context.Context) error {
	return errors.Join(i.listeners.End(ctx), i.uncover())
}

// Left lists the listeners and covers of this injection, from any process.
func (i *Injector) Left(context.Context) ([]string, error) {
	left, err := i.listeners.Left()
	found, coverErr := i.covered()
	for _, c := range found {
		left = append(left, c.String())
	}
	return left, errors.Join(err, coverErr)
}

// Audit lists the listeners and covers on this node, of any disruption. It reads the
// processes below proc.
func Audit(_ context.Context, proc string, _ []v1beta1.Injection) ([]v1beta1.Mark, error) {
	marks, err := listeners.Audit(proc)
	found, coverErr := findCovers(proc, listeners.Prefix)
	for _, c := range found {
		disruption, target, _ := strings.Cut(strings.TrimPrefix(c.mark, listeners.Prefix), "/")
		marks = append(marks, v1beta1.Mark{
			Object: c.String(), Kind: v1beta1.KindDiskFailure,
			Disruption: v1beta1.DisruptionRef{UID: types.UID(disruption)}, Target: types.UID(target),
		})
	}
	return marks, errors.Join(err, coverErr)
}

// Notes lists what the last Inject could not do, in sentences for the user.
func (i *Injector) Notes() []string { return i.notes }

// EffectLost sends the reason if opens do not fail any more while the target exists.
func (i *Injector) EffectLost() <-chan error { return i.effectLost }

// Probe returns the errors with which this kernel can make opens fail. Its own error is
// that of an injection.
func (i *Injector) Probe() (string, error) {
	offers, some := i.offers()
	if len(i.params.Paths) == 0 { // without paths any way is enough
		if !some {
			return "", i.refused("the opening of files")
		}
		return offers, nil
	}
	p, err := planOf(i.params)
	if err == nil {
		_, err = i.way(p)
	}
	return offers, err
}

// The ways to make opens fail.
const (
	byLSM          = "BPF LSM"
	byModifyReturn = "BPF fmod_ret"
	byFanotify     = "fanotify"
	byMount        = "mounts"
)

// way is one of them. An injector tries them in its order. First come those in which no
// open waits for a process and any error is possible, last the one that does not end with
// the injector.
type way struct {
	name string
	// errnos returns the errors that the kernel gives in this way. It probes the kernel once.
	errnos func() ([]string, error)
}

func allWays() []way {
	types := btf.NewCache()
	return []way{
		{byLSM, sync.OnceValues(func() ([]string, error) { return hooks[byLSM].errnos(types) })},
		{byModifyReturn, sync.OnceValues(func() ([]string, error) { return hooks[byModifyReturn].errnos(types) })},
		{byFanotify, sync.OnceValues(fanotifyErrnos)},
		{byMount, sync.OnceValues(coverErrnos)},
	}
}

// offers describes what this kernel offers, and what it lacks, way by way. It offers
// nothing if some is false.
func (i *Injector) offers() (text string, some bool) {
	var ways []string
	var lacked []error
	for _, way := range i.ways {
		given, err := way.errnos()
		switch {
		case err != nil:
			lacked = append(lacked, fmt.Errorf("%s: %w", way.name, err))
		case way.name == byMount:
			ways = append(ways, "mounts over the paths give "+names(given)+" (of a directory only "+directoryErrno+"), at level pod and to all opens")
		default:
			ways = append(ways, way.name+" gives "+names(given))
		}
	}
	some = len(ways) > 0
	if len(lacked) > 0 {
		ways = append(ways, oneline.Join(lacked...).Error())
	}
	return strings.Join(ways, "; "), some
}

// way chooses how to give the error of the plan, or refuses it.
func (i *Injector) way(p plan) (string, error) {
	for _, way := range i.ways {
		if way.name == byMount && (i.target.Injection.Level == v1beta1.LevelNode || p.percent < 100) {
			continue
		}
		// If no way is possible, the refusal includes the errors of each.
		if given, _ := way.errnos(); slices.Contains(given, p.errno) {
			return way.name, nil
		}
	}
	what := fmt.Sprintf("openat.exitCode %s with probability %d%% at level %s", p.errno, p.percent, i.target.Injection.Level)
	return "", i.refused(what)
}

// refused returns the error with what this node cannot do, and what it can.
func (i *Injector) refused(what string) error {
	can, _ := i.offers()
	return fmt.Errorf("%s: %s (kernel %s) cannot make opens fail that way: %s; nothing was changed", what, i.node(), target.KernelRelease(), can)
}

// node describes this node to people.
func (i *Injector) node() string {
	if name := i.target.Injection.Target.NodeName; name != "" {
		return "node " + name
	}
	return "this node"
}

// note adds a sentence once.
func (i *Injector) note(sentence string) {
	if !strings.Contains(strings.Join(i.notes, "\n"), sentence) {
		i.notes = append(i.notes, sentence)
	}
}
