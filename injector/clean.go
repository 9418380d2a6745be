package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
)

// cleanReport is what the subcommand clean prints.
type cleanReport struct {
	// Cleaned are the injections of which nothing is left now.
	Cleaned []string `json:"cleaned"`
	// Left are those that could not be cleaned.
	Left []leftOver `json:"left"`
	// Error says what kept some journals from being read.
	Error string `json:"error,omitempty"`
}

type leftOver struct {
	Injection string   `json:"injection"`
	Error     string   `json:"error"`
	Objects   []string `json:"objects,omitempty"`
}

// clean undoes what journals note, after the injectors that wrote them died. It
// leaves alone what belongs to an injector that lives: ending that one cleans.
func (p program) clean(ctx context.Context, config Config, args []string) int {
	flags := flag.NewFlagSet("clean", flag.ContinueOnError)
	flags.SetOutput(p.stderr)
	uid := flags.String("disruption", "", "clean only what the disruption with this `UID` left")
	target := flags.String("target", "", "clean only what was done to the target with this `UID`")
	if err := flags.Parse(args); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(p.stderr, "usage: injector clean [--disruption UID] [--target UID]")
		return exitRefused
	}
	report := cleanReport{Cleaned: []string{}, Left: []leftOver{}}
	records, err := journal.List(config.JournalDir)
	if err != nil {
		report.Error = err.Error()
	}
	for _, record := range records {
		if *uid != "" && string(record.Injection.Disruption.UID) != *uid ||
			*target != "" && string(record.Injection.Target.UID) != *target {
			continue
		}
		name := injectionName(record.Injection)
		objects, err := p.cleanOne(ctx, config, record.Injection)
		if err != nil {
			report.Left = append(report.Left, leftOver{Injection: name, Error: err.Error(), Objects: objects})
			continue
		}
		report.Cleaned = append(report.Cleaned, name)
	}
	if err := p.print(report); err != nil || report.Error != "" || len(report.Left) > 0 {
		return exitNotCleaned
	}
	return exitOK
}

// cleanOne returns what is left if it fails.
func (p program) cleanOne(ctx context.Context, config Config, injection v1beta1.Injection) ([]string, error) {
	log, err := newLogger(config.LogLevel, p.stderr)
	if err != nil {
		return nil, err
	}
	s, err := recoverSubject(config, p.kinds, injection)
	if isMissing(err) {
		return nil, nil // its own injector was faster
	}
	if errors.Is(err, journal.ErrBusy) {
		return nil, fmt.Errorf("%w: end that one, and it cleans by itself", err)
	}
	if err != nil {
		return nil, err
	}
	defer s.journal.Close()
	if err := s.cleanWithRetries(ctx, config, log); err != nil {
		return s.left(), err
	}
	return nil, nil
}

// injectionName is for people and says all that is needed to find the objects.
func injectionName(i v1beta1.Injection) string {
	return fmt.Sprintf("%s of disruption %s/%s (%s) on %s (%s)",
		i.Kind, i.Disruption.Namespace, i.Disruption.Name, i.Disruption.UID, i.Target.Name, i.Target.UID)
}

func (p program) print(report any) error {
	encoder := json.NewEncoder(p.stdout)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}
