//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/target"
)

// inject is the subcommand of every kind, with one lifecycle for all. It refuses a document
// that it cannot act on safely. Every later error is a failed injection: the process stays
// to report it.
func (p program) inject(ctx context.Context, config Config, kind v1beta1.Kind) int {
	// From here on a signal means "clean", not "die".
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log, err := newLogger(config.LogLevel, p.stdout)
	if err != nil {
		fmt.Fprintln(p.stderr, err)
		return exitRefused
	}
	defer log.Sync()
	injection, err := readInjection(os.Getenv(v1beta1.InjectionEnv), kind)
	if err != nil {
		log.Error(v1beta1.MessageInjectionFailed, zap.String("error", err.Error()))
		writeOutcome(config.TerminationLog, v1beta1.InjectionReport{Cleaned: true, Error: err.Error()}, log)
		return exitRefused
	}
	log = log.With(
		zap.String("disruption", injection.Disruption.Namespace+"/"+injection.Disruption.Name),
		zap.String("uid", string(injection.Disruption.UID)),
		zap.String("kind", string(kind)), zap.String("target", injection.Target.Name))
	l := &lifecycle{program: p, config: config, injection: injection, log: log, metrics: newMetrics(config.MetricsSink, log)}

	guard := l.guard()
	outcome := l.run(ctx)
	writeOutcome(config.TerminationLog, outcome, log)
	if !outcome.Cleaned {
		return exitNotCleaned // the guard retries, as a cleaner would
	}
	guard.end()
	return exitOK
}

// lifecycle is one injection from its beginning to its end.
type lifecycle struct {
	program
	config    Config
	injection v1beta1.Injection
	log       *zap.Logger
	metrics   metrics

	session *session // nil until there is something to clean
	// current is the target with the containers it has now. held lists what was on the node
	// after the last injection. beat fires when the pulse pauses the injection.
	current *target.Target
	held    []string
	beat    <-chan time.Time
	// proof is what is known of the effect. figures is when it was logged last.
	proof   proof
	figures time.Time
}

// run injects, holds until ctx is done or the deadline passes, and cleans.
func (l *lifecycle) run(ctx context.Context) v1beta1.InjectionReport {
	ctx, stop, err := untilDeadline(ctx, l.injection)
	defer stop()
	var outcome v1beta1.InjectionReport

	removeStale(l.config.ReadyFile, l.config.ReasonFile, l.config.askedFile(), l.config.turnFile())
	failure := errors.Join(err, tooLate(l.injection, time.Now()))
	if failure == nil {
		outcome.Injected, failure = l.attempts(ctx)
	}
	switch {
	case failure == nil:
	case ctx.Err() != nil && errors.Is(failure, ctx.Err()):
		l.log.Info("asked to end before everything was injected")
	default:
		outcome.Error = failure.Error()
		l.fail(failure)
	}

	<-ctx.Done()
	if failure == nil {
		l.prove(context.WithoutCancel(ctx)) // the figures of the end
	}
	outcome.Effect = l.lastEffect()
	l.log.Info("cleaning", zap.String("because", endReason(ctx)))
	if err := l.end(context.WithoutCancel(ctx), failure); err != nil {
		l.metrics.count(countCleaned, "failed")
		l.log.Error("cleaning failed", zap.String("error", err.Error()))
		outcome.Error, outcome.Left = err.Error(), l.left()
		return outcome
	}
	outcome.Cleaned, outcome.Audited = true, true
	if l.session != nil && l.session.auditErr != nil {
		l.log.Warn("cleaned, and not all of it is proven", zap.String("reason", l.session.auditErr.Error()))
		outcome.Audited = false
	}
	l.metrics.count(countCleaned, "succeeded")
	l.log.Info("cleaned", zap.Bool("audited", outcome.Audited))
	return outcome
}

// longestPause bounds the pauses between attempts, which double from Config.RetryEvery on.
const longestPause = 30 * time.Second

// attempts injects and holds. After a failure that may pass, it cleans and retries after a
// pause: a name may resolve later, a container may start, a node may have less to do.
// injected is true once an attempt has succeeded.
func (l *lifecycle) attempts(ctx context.Context) (injected bool, failure error) {
	for pause := l.config.RetryEvery; ; pause = min(2*pause, longestPause) {
		if failure = l.start(ctx); failure == nil {
			injected = true
			failure = l.keep(ctx)
		}
		if failure == nil || ctx.Err() != nil || !l.mayPass(failure) {
			return injected, failure
		}
		l.fail(fmt.Errorf("%w; retried at least every %s until the disruption ends", failure, longestPause))
		if err := l.cleanAttempt(ctx); err != nil {
			return injected, errors.Join(failure, err)
		}
		if !sleep(ctx, pause) {
			return injected, failure
		}
		if l.current == nil {
			continue
		}
		if renewed, err := l.current.RenewedPartly(); err == nil { // containers may have restarted
			l.injection = renewed.Injection
		}
	}
}

// keep holds the injection until ctx is done, and returns an error if it ends before.
func (l *lifecycle) keep(ctx context.Context) error {
	l.metrics.count(countInjected, "succeeded")
	l.log.Info("injected", zap.Time("until", l.injection.Deadline.Time), zap.Bool("dryRun", l.injection.DryRun), zap.Strings("notes", l.notes()))
	if l.kinds[l.injection.Kind].ends {
		return l.trigger(ctx)
	}
	return l.hold(ctx)
}

// mayPass is true for a failure that another attempt may avoid. A kind that acts once is
// not repeated. A feature that the kernel lacks stays missing.
func (l *lifecycle) mayPass(failure error) bool {
	kind := l.kinds[l.injection.Kind]
	if errors.Is(failure, errHangs) || kind.once || kind.ends {
		return false
	}
	return probeKind(kind).Error == ""
}

// cleanAttempt cleans a failed attempt, so that the next one starts from the original
// state.
func (l *lifecycle) cleanAttempt(ctx context.Context) error {
	if l.session == nil {
		return nil
	}
	if err := l.cleanCurrent(ctx); err != nil {
		return err
	}
	l.session, l.held, l.beat = nil, nil, nil
	return nil
}

// fail reports why nothing is injected: in the effect, the metrics, the log and the probes.
func (l *lifecycle) fail(failure error) {
	l.recordLoss(failure.Error())
	l.metrics.count(countInjected, "failed")
	l.reportFailure(failure)
}

// start does everything up to the ready file, which it writes last and only after success
// (rule 55).
func (l *lifecycle) start(ctx context.Context) error {
	if done, err := l.happened(); done || err != nil {
		if err != nil {
			return err
		}
		return l.writeReady()
	}
	if err := l.cleanEarlier(ctx); err != nil {
		return fmt.Errorf("clean what an earlier injector left: %w", err)
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	if begin := l.begin(); !begin.IsZero() {
		l.log.Info("waiting", zap.Time("until", begin))
		if !sleep(ctx, time.Until(begin)) {
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.refuseStarted(); err != nil {
		return err
	}
	return l.inject(ctx)
}

// begin returns when the injection may begin, zero for at once.
func (l *lifecycle) begin() time.Time {
	var begin time.Time
	if notBefore := l.injection.NotBefore; notBefore != nil {
		begin = notBefore.Time
	}
	if pulse := l.injection.Pulse; pulse != nil && pulse.InitialDelay != nil {
		if begin.Before(time.Now()) {
			begin = time.Now()
		}
		begin = begin.Add(pulse.InitialDelay.Duration)
	}
	return begin
}

// prepare opens the session of the containers that the injection names.
func (l *lifecycle) prepare(ctx context.Context) error {
	made, err := prepare(ctx, l.config, l.kinds[l.injection.Kind], l.injection)
	if err != nil {
		return err
	}
	l.session, l.current = made, made.target
	return refuseNodeNetwork(made.target)
}

// inject puts the prepared session into force and reports it.
func (l *lifecycle) inject(ctx context.Context) error {
	if err := watched(ctx, l.config.CleanTimeout, l.injectOrProbe); err != nil {
		return err
	}
	// If the list is unknown, no loss can be detected.
	l.held, _ = l.session.standing(ctx)
	l.prove(ctx)
	if err := l.writeReady(); err != nil {
		return err
	}
	if pulse := l.injection.Pulse; pulse != nil && l.beat == nil {
		l.beat = time.After(pulse.ActiveDuration.Duration)
	}
	return l.releasePod(ctx)
}

// notes lists what the kind could not do although the injection succeeded.
func (l *lifecycle) notes() []string {
	if l.session == nil || l.session.fault.notes == nil {
		return nil
	}
	return l.session.fault.notes()
}

// injectOrProbe injects. A dry run only checks whether the kernel could.
func (l *lifecycle) injectOrProbe(ctx context.Context) error {
	if !l.injection.DryRun {
		return l.session.fault.Inject(ctx)
	}
	if l.session.fault.probe == nil {
		return nil
	}
	_, err := l.session.fault.probe()
	return err
}

// end cleans, also after an injection that failed or was never tried.
func (l *lifecycle) end(ctx context.Context, failure error) error {
	if err := removeStale(l.config.ReadyFile, l.config.ReasonFile, l.config.turnFile()); err != nil {
		l.log.Warn("the ready file stays", zap.String("reason", err.Error()))
	}
	if errors.Is(failure, errHangs) {
		return fmt.Errorf("injection: %w; it is still at work, so it was not cleaned", failure)
	}
	if l.session == nil {
		return l.cleanEarlier(ctx) // without a journal nothing was done
	}
	return l.session.cleanWithRetries(ctx, l.config, l.log)
}

// cleanEarlier cleans what an earlier process left of this very injection, with the
// parameters of that process. Usually there is nothing.
func (l *lifecycle) cleanEarlier(ctx context.Context) error {
	earlier, err := recoverSession(l.config, l.kinds, l.injection)
	if isMissing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer earlier.journal.Close()
	return earlier.cleanWithRetries(ctx, l.config, l.log)
}

func (l *lifecycle) left() []string {
	if l.session == nil {
		return nil
	}
	return l.session.left()
}

// reportFailure reports why nothing is injected, in the log and to the probes, while the
// process stays (rules 33, 57).
func (l *lifecycle) reportFailure(failure error) {
	reason := text.Shorten(text.Line(failure.Error()), maxReason)
	if err := errors.Join(writeReason(l.config.ReasonFile, reason), removeStale(l.config.ReadyFile)); err != nil {
		l.log.Warn("the readiness probe cannot report the reason", zap.String("reason", err.Error()))
	}
	l.log.Error(v1beta1.MessageInjectionFailed, zap.String("error", reason))
}

func endReason(ctx context.Context) string {
	if cause := context.Cause(ctx); errors.Is(cause, errDeadline) {
		return cause.Error()
	}
	return "a signal asked for it"
}
