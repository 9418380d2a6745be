//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/journal"
	"github.com/squall-chaos/squall/injector/target"
)

const (
	fakeKind      v1beta1.Kind = "fake-disruption"
	otherFakeKind v1beta1.Kind = "other-fake"
)

var fakeKinds = map[v1beta1.Kind]entry{
	fakeKind:      {construct: newFakes, audit: auditFakes},
	otherFakeKind: {construct: newFakes, audit: auditFakes},
	smallKind:     {construct: from(newSmall, small.capabilities)},
}

var newFakes = from(newFake, func(f *fake) capabilities { return capabilities{moved: f.Moved} })

// fakeParams select the errors of the fake. It disrupts the files "first" and "second" in
// Dir: it writes "broken" into them.
type fakeParams struct {
	Dir string `json:"dir"`
	// FailSecond fails after the first file; Gate waits for a file of that name.
	FailSecond bool   `json:"failSecond,omitempty"`
	Gate       string `json:"gate,omitempty"`
	// FailFirst is how many calls of Inject fail after the first file.
	FailFirst int `json:"failFirst,omitempty"`
	// FailAgain is how many calls of Inject after the first fail after the first file.
	FailAgain int `json:"failAgain,omitempty"`
	// FailCleans is how many calls of Clean fail.
	FailCleans int  `json:"failCleans,omitempty"`
	HangInject bool `json:"hangInject,omitempty"`
	HangClean  bool `json:"hangClean,omitempty"`
	Panic      bool `json:"panic,omitempty"`
	PanicClean bool `json:"panicClean,omitempty"`
	// HangAudit has audits hang while the injection's journal is there.
	HangAudit bool `json:"hangAudit,omitempty"`
	// Careless is how many calls of Clean do nothing and return nil. Blind makes Left fail.
	Careless int  `json:"careless,omitempty"`
	Blind    bool `json:"blind,omitempty"`
}

type fake struct {
	params  fakeParams
	journal *journal.Journal
}

func newFake(params fakeParams, _ *target.Target, j *journal.Journal) *fake {
	return &fake{params: params, journal: j}
}

func (f *fake) Inject(ctx context.Context) error {
	calls := f.note("inject")
	os.Remove(f.elsewhere()) // what it holds is disrupted now
	if f.params.Panic {
		panic("the fake has a bug")
	}
	if f.params.HangInject {
		select {}
	}
	for f.params.Gate != "" {
		if _, err := os.Stat(filepath.Join(f.params.Dir, f.params.Gate)); err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := f.disturb("first"); err != nil {
		return err
	}
	if f.params.FailSecond || calls <= f.params.FailFirst || calls > 1 && calls <= 1+f.params.FailAgain {
		return errors.New("the second file could not be broken")
	}
	return f.disturb("second")
}

func (f *fake) Clean(context.Context) error {
	calls := f.note("clean")
	if f.params.HangClean {
		select {}
	}
	if f.params.PanicClean {
		panic("the fake has a bug")
	}
	if calls <= f.params.FailCleans {
		return fmt.Errorf("clean call %d failed", calls)
	}
	if calls <= f.params.Careless {
		return nil
	}
	return f.journal.Restore(readFile, writeFile)
}

func (f *fake) Left(context.Context) ([]string, error) {
	if f.params.Blind {
		return nil, errors.New("the fake sees nothing")
	}
	return f.journal.Unrestored(readFile)
}

func (f *fake) Prove(context.Context) (v1beta1.EffectState, string, error) {
	return "", "", errors.New("the fake measures nothing")
}

// Moved is what a file in Dir holds.
func (f *fake) Moved(context.Context) (string, error) {
	moved, err := readFile(f.elsewhere())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return moved, err
}

func (f *fake) elsewhere() string { return filepath.Join(f.params.Dir, "moved") }

func (f *fake) disturb(name string) error {
	path := filepath.Join(f.params.Dir, name)
	before, err := readFile(path)
	if err != nil {
		return err
	}
	if err := f.journal.Write(journal.Change{Object: path, Before: before, After: "broken"}); err != nil {
		return err
	}
	return writeFile(path, "broken")
}

// note counts the calls of a method, over all processes.
func (f *fake) note(call string) int {
	path := filepath.Join(f.params.Dir, "calls")
	data, _ := os.ReadFile(path)
	data = append(data, call+" "...)
	os.WriteFile(path, data, 0o644)
	return strings.Count(string(data), call)
}

func readFile(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

func writeFile(path, value string) error { return os.WriteFile(path, []byte(value), 0o644) }

// auditFakes finds nothing: what a fake leaves is in the journal.
func auditFakes(_ context.Context, _ string, known []v1beta1.Injection) ([]v1beta1.Mark, error) {
	for _, injection := range known {
		var params fakeParams
		if json.Unmarshal(injection.Params, &params) == nil && params.HangAudit {
			select {}
		}
	}
	return nil, nil
}
