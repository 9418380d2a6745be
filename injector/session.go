//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

// cleanRetries is how often a failed cleaning is retried (rule 60).
const cleanRetries = 3

// errHangs means that a kind did not return long after it was asked to. A second call
// beside the first could do harm, so the injector makes none.
var errHangs = errors.New("it does not return")

// session is one kind on one target, with the journal of both.
type session struct {
	target  *target.Target
	journal *journal.Journal
	fault   fault // zero when there is nothing in this kernel
	over    bool  // cleaned, and the journal removed

	// found lists the objects seen after the last cleaning. auditErr is why that search
	// failed.
	found    []string
	auditErr error
}

// prepare makes the session of a new injection. It changes nothing but the
// journal.
func prepare(ctx context.Context, config Config, kind entry, injection v1beta1.Injection) (*session, error) {
	t, err := target.Load(ctx, injection, config.Proc)
	if err != nil {
		return nil, refusedOnInit(injection, err)
	}
	return prepareOn(config, kind, t)
}

// prepareOn is prepare for a target that is already known.
func prepareOn(config Config, kind entry, t *target.Target) (*session, error) {
	j, err := journal.Open(config.JournalDir, t)
	if err != nil {
		return nil, err
	}
	s := &session{target: t, journal: j}
	if s.fault, err = kind.construct(t.Injection.Params, t, j); err == nil {
		err = refuseSecond(config, t.Injection)
	}
	if err != nil {
		return nil, errors.Join(err, j.Remove())
	}
	return s, nil
}

// refuseSecond refuses a target that another disruption acts on, or left changed. Both
// would change the same objects, and neither could restore the original values. The worker
// checks this as well, but a person may have released the other disruption by mistake. The
// journal of this injection is on the disk before the check: of two that begin together at
// least one sees the other.
func refuseSecond(config Config, injection v1beta1.Injection) error {
	if injection.DryRun {
		return nil
	}
	entries, err := journal.List(config.JournalDir)
	if err != nil {
		return err
	}
	boot, err := journal.BootID()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		other := entry.Injection
		if other.Kind != injection.Kind || other.Target.UID != injection.Target.UID || other.Disruption.UID == injection.Disruption.UID {
			continue
		}
		if entry.BootID == boot && !other.DryRun {
			return fmt.Errorf("disruption %s/%s (%s) has this fault on this target, or left it there; nothing was changed."+
				" End it first. If it is over, run injector clean --disruption %s, or wait for the next sweep",
				other.Disruption.Namespace, other.Disruption.Name, other.Disruption.UID, other.Disruption.UID)
		}
	}
	return nil
}

// recoverSession makes the session of an earlier process from its journal. It returns
// fs.ErrNotExist, wrapped, when there is none.
func recoverSession(config Config, kinds map[v1beta1.Kind]entry, injection v1beta1.Injection) (*session, error) {
	j, err := journal.Reopen(config.JournalDir, injection)
	if err != nil {
		return nil, err
	}
	s, err := recoverFrom(j, config, kinds)
	if err != nil {
		j.Close()
		return nil, err
	}
	return s, nil
}

func recoverFrom(j *journal.Journal, config Config, kinds map[v1beta1.Kind]entry) (*session, error) {
	record := j.Record()
	boot, err := journal.BootID()
	if err != nil {
		return nil, err
	}
	if record.BootID != boot || record.Injection.DryRun {
		return &session{journal: j}, nil // there is nothing in this kernel
	}
	kind, known := kinds[record.Injection.Kind]
	if !known {
		return nil, fmt.Errorf("journal %s: this injector has no kind %q", j.Path(), record.Injection.Kind)
	}
	t, err := target.Recover(record.Injection, record.Containers, config.Proc)
	if err != nil {
		return nil, err
	}
	made, err := kind.construct(record.Injection.Params, t, j)
	if err != nil {
		return nil, err
	}
	return &session{target: t, journal: j, fault: made}, nil
}

// cleanWithRetries cleans, each attempt bounded, and removes the journal after a success.
func (s *session) cleanWithRetries(ctx context.Context, config Config, log *zap.Logger) error {
	return withRetries(ctx, config, log, func() error { return bounded(ctx, config.CleanTimeout, s.clean) })
}

// withRetries calls f up to 1 + cleanRetries times, with growing pauses, until it
// succeeds.
func withRetries(ctx context.Context, config Config, log *zap.Logger, f func() error) error {
	var err error
	pause := config.CleanBackoff
	for attempt := range 1 + cleanRetries {
		if attempt > 0 {
			log.Warn("cleaning failed, trying again", zap.Int("attempt", attempt), zap.String("reason", err.Error()))
			if !sleep(ctx, pause) {
				return errors.Join(err, ctx.Err())
			}
			pause *= 2
		}
		if err = f(); err == nil || errors.Is(err, errHangs) {
			return err
		}
	}
	return fmt.Errorf("clean, tried %d times: %w", 1+cleanRetries, err)
}

// clean cleans once and then searches for what is left, which the kind may have overlooked.
// The journal stays until nothing is left.
func (s *session) clean(ctx context.Context) error {
	if s.over {
		return nil
	}
	if s.fault.injector == nil {
		return s.remove()
	}
	err := s.cleanKind(ctx)
	s.found, s.auditErr = s.fault.Left(ctx)
	if err != nil {
		gone, goneErr := s.target.Gone()
		if !gone {
			return errors.Join(err, goneErr)
		}
		s.found, s.auditErr = nil, nil // went with it
	}
	if len(s.found) > 0 {
		return fmt.Errorf("cleaned, and %d things are left: %s", len(s.found), strings.Join(s.found, ", "))
	}
	return s.remove()
}

// remove removes the record. On a disk that cannot be written the record stays, and remove
// returns nil: everything else is gone, and a person could not remove it either.
func (s *session) remove() error {
	err := s.journal.Remove()
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO) {
		s.auditErr = errors.Join(s.auditErr, fmt.Errorf("everything is cleaned up, but its record cannot be removed from the disk; the next sweep retries: %w", err))
		err = nil
	}
	s.over = err == nil
	return err
}

// cleanKind cleans what was injected; a dry run injected nothing.
func (s *session) cleanKind(ctx context.Context) error {
	if s.journal.Record().Injection.DryRun {
		return nil
	}
	return s.fault.Clean(ctx)
}

// left names what a failed cleaning leaves behind: the objects found or, if the search
// failed, the objects in the journal.
func (s *session) left() []string {
	names := append([]string{"journal " + s.journal.Path()}, s.found...)
	if len(s.found) > 0 && s.auditErr == nil {
		return names
	}
	for _, change := range s.journal.Changes() {
		names = append(names, fmt.Sprintf("%s, which was %q before", change.Object, change.Before))
	}
	return names
}

// bounded runs f with a time limit, and stops waiting for it at twice that.
func bounded(ctx context.Context, limit time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return watched(ctx, limit, f)
}

// watched runs f, and stops waiting for it when it runs for longer than patience after ctx
// was done. A panic in f becomes an error: the injection must be cleaned despite a bug.
func watched(ctx context.Context, patience time.Duration, f func(context.Context) error) error {
	result := make(chan error, 1)
	go func() {
		defer func() {
			if bug := recover(); bug != nil {
				result <- fmt.Errorf("bug, please report it: panic: %v", bug)
			}
		}()
		result <- f(ctx)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err
	case <-time.After(patience):
		return fmt.Errorf("%w, %s after it should have", errHangs, patience)
	}
}

// sleep waits for d and returns false if ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
