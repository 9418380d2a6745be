//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"

	"go.uber.org/zap"

	"github.com/squall-chaos/squall/api/text"
	"github.com/squall-chaos/squall/api/v1beta1"
)

const (
	// maxOutcome is how many bytes of a termination message the kubelet keeps.
	maxOutcome = 4096
	// maxReason keeps a reason, in bytes, within one line of a log and of a status.
	maxReason = 1024
	// maxForged bounds how much of a malformed UID a report quotes, in bytes.
	maxForged = 40
)

// reason is what the probes print while nothing is injected. Its keys are those of the log
// line.
type reason struct {
	Message string `json:"msg"`
	Error   string `json:"error,omitempty"`
}

func writeReason(path, failure string) error {
	data, err := json.Marshal(reason{Message: v1beta1.MessageInjectionFailed, Error: text.Line(failure)})
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// writeOutcome writes the process's termination message. It logs a failure, as on a machine
// without a kubelet.
func writeOutcome(path string, outcome v1beta1.InjectionReport, log *zap.Logger) {
	data, err := encodeOutcome(outcome)
	if err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		log.Warn("no termination message", zap.String("reason", err.Error()))
	}
}

// printReport prints the whole report of n items for people. It also writes as much of it
// as the kubelet keeps to the termination message. Outside a container that file is
// missing, and printReport does not create it.
func (p program) printReport(config Config, report any, n int, cut func(keep int) any) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(report); err != nil {
		return err
	}
	message, err := os.OpenFile(config.TerminationLog, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer message.Close()
	_, err = message.Write(encodeFitting(n, cut))
	return err
}

// encodeFitting encodes a report with as many of its n items as fit into maxOutcome bytes.
// Encoding a report cannot fail, whatever its content.
func encodeFitting(n int, cut func(keep int) any) []byte {
	encode := func(keep int) []byte {
		data, _ := json.Marshal(cut(keep))
		return data
	}
	tooMany := sort.Search(n, func(keep int) bool { return len(encode(keep+1)) > maxOutcome })
	return encode(tooMany)
}

// encodeOutcome makes a document of at most maxOutcome bytes: the kubelet would cut a
// longer one in the middle. It shortens texts and lists, but always keeps whether the
// injection was cleaned.
func encodeOutcome(outcome v1beta1.InjectionReport) ([]byte, error) {
	outcome.Error = text.Shorten(text.Line(outcome.Error), maxOutcome/2)
	all := outcome.Left
	for keep := len(all); ; keep-- {
		outcome.Left = all[:keep:keep]
		if more := len(all) - keep; more > 0 {
			outcome.Left = append(outcome.Left, fmt.Sprintf("and %d more", more))
		}
		data, err := json.Marshal(outcome)
		if err != nil || len(data) <= maxOutcome {
			return data, err
		}
		if keep == 0 {
			// Characters that JSON escapes can make a text six times as long.
			outcome.Error = text.Shorten(outcome.Error, len(outcome.Error)/2)
			keep++
		}
	}
}

// removeStale removes files that may be missing.
func removeStale(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
