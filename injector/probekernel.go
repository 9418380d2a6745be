//go:build linux

package main

import (
	"context"

	"github.com/squall-chaos/squall/injector/target"
)

// kernelReport is what the subcommand probe-kernel prints.
type kernelReport struct {
	Kernel string                `json:"kernel"`
	Kinds  map[string]kindReport `json:"kinds"`
}

// kindReport has either what the kernel offers, or what it lacks.
type kindReport struct {
	Offers string `json:"offers,omitempty"`
	Error  string `json:"error,omitempty"`
}

// probeKernel reports what an injection of each kind would find. It changes nothing, and
// succeeds also on a kernel that offers little.
func (p program) probeKernel(_ context.Context, config Config, _ []string) int {
	report := kernelReport{Kernel: target.KernelRelease(), Kinds: map[string]kindReport{}}
	for kind, entry := range p.kinds {
		report.Kinds[string(kind)] = probeKind(entry)
	}
	if err := p.printReport(config, report, 0, func(int) any { return report }); err != nil {
		return exitNotCleaned
	}
	return exitOK
}

func probeKind(kind entry) kindReport {
	made, err := kind.construct(nil, &target.Target{}, nil)
	if err != nil {
		return kindReport{Error: err.Error()}
	}
	if made.probe == nil {
		return kindReport{Offers: "needs nothing special"}
	}
	offers, err := made.probe()
	if err != nil {
		return kindReport{Offers: offers, Error: err.Error()}
	}
	return kindReport{Offers: offers}
}
