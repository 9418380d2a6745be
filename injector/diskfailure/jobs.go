//go:build linux

package diskfailure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/child"
	"github.com/squall-chaos/squall/injector/target"
)

// job is a listener to start.
type job struct {
	order
	name    string
	watched *os.File // a pidfd: the listener ends with its process
	check   func() error
}

// listenAll starts all listeners. For a hook the caller has a turn, so that the count stays
// true until the last program is attached.
func (i *Injector) listenAll(ctx context.Context, p plan, way string) error {
	i.orders = map[string]order{}
	jobs, err := i.jobs(p)
	defer func() {
		for _, job := range jobs {
			job.watched.Close()
		}
	}()
	if err != nil {
		return err
	}
	if hook, is := hooks[way]; is {
		attached, err := countAttached(hook.kind, programName)
		if err != nil {
			return fmt.Errorf("count the BPF programs of this node: %w", err)
		}
		if err := checkRoom(i.node(), hook.function, attached, len(jobs)); err != nil {
			return err
		}
	}
	for _, job := range jobs {
		job.Way = way
		if err := i.listen(ctx, job); err != nil {
			return fmt.Errorf("make opens fail in %s: %w", job.name, err)
		}
	}
	return nil
}

// jobs prepares the listeners of all containers, or of the node. It changes nothing. The
// caller must close the jobs returned with an error as well.
func (i *Injector) jobs(p plan) ([]job, error) {
	if i.target.Injection.Level == v1beta1.LevelNode {
		return i.nodeJob(p)
	}
	var jobs []job
	for _, container := range i.target.Containers {
		watched, err := container.Pidfd()
		if err != nil {
			return jobs, err
		}
		made := job{name: "container " + container.Name, watched: watched, check: container.Check}
		jobs = append(jobs, made)
		order, err := i.order(p, made.name, container.PID)
		// Everything was found by process number: it is valid if the number is still the
		// target's.
		if err := errors.Join(container.Check(), err); err != nil {
			return jobs, fmt.Errorf("%s: %w", made.name, err)
		}
		jobs[len(jobs)-1].order = order
	}
	return jobs, nil
}

// nodeJob prepares the listener where the node's first process sees the paths.
func (i *Injector) nodeJob(p plan) ([]job, error) {
	self, err := target.Self()
	if err != nil {
		return nil, err
	}
	made := job{name: "node " + i.target.Injection.Target.Name, watched: self, check: func() error { return nil }}
	made.order, err = i.order(p, made.name, 1)
	i.note("only processes of the node itself are disrupted; containers have mounts of their own")
	return []job{made}, err
}

// listen starts a listener and watches it.
func (i *Injector) listen(ctx context.Context, job job) error {
	document, err := json.Marshal(job.order)
	if err != nil {
		return err
	}
	listener, err := i.listeners.Start(string(document), job.watched, false)
	if err != nil {
		return err
	}
	if err := listener.Release(ctx); err != nil {
		return listener.Abandon(err)
	}
	go i.guard(listener, job)
	i.orders[job.name] = job.order
	return nil
}

// Moved finds paths that lead elsewhere than during Inject, and new mounts.
func (i *Injector) Moved(context.Context) (string, error) {
	p, err := planOf(i.params)
	if err != nil {
		return "", err
	}
	if i.covers > 0 {
		return i.uncoveredNow(p)
	}
	jobs, err := i.jobs(p)
	for _, job := range jobs {
		job.watched.Close()
	}
	if err != nil {
		return "", err
	}
	for _, job := range jobs {
		if more := job.beyond(i.orders[job.name]); more != "" {
			return job.name + ": " + more, nil
		}
	}
	return "", nil
}

// beyond returns one place of an order that an earlier order lacks.
func (o order) beyond(earlier order) string {
	for _, list := range [][2][]string{{o.Prefixes, earlier.Prefixes}, {o.found, earlier.found}} {
		for _, place := range list[0] {
			if !slices.Contains(list[1], place) {
				return place
			}
		}
	}
	return ""
}

// guard ends a listener that does not answer. It runs until the listener has ended, and
// reports that end while the target exists.
func (i *Injector) guard(listener *child.Child, job job) {
	err := listener.Guard(job.silence(), func(line string) { i.denied.note(job.name, line) })
	if job.check() != nil {
		return // the listener ended with it
	}
	select {
	case i.effectLost <- fmt.Errorf("opens in %s do not fail any more: %w", job.name, err):
	default: // another end was reported before
	}
}
