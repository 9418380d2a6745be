package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/squall-chaos/squall/hack/debian"
	"github.com/squall-chaos/squall/hack/vm"
)

// machine is a kernel and what is run on it.
type machine struct {
	name string
	// fetched is Debian's package of the kernel.
	fetched string
	// modules are loaded before the tests: the guest has nothing that loads one
	// when it is asked for, as a node has.
	modules  []string
	packages []testPackage
	// needs are programs that run it.
	needs []debian.Need
	// limit is how long the machine may take for all tests.
	limit time.Duration
	start func(guestFiles) ([]string, []string, error)
}

// testPackage is a package whose tests are run, below the repository.
type testPackage struct {
	name string
	// run and skip choose among its tests as those flags of go test do; quick is
	// what is run of them for every change: - for nothing, empty for all.
	run, skip, quick string
	// limit is how long its tests may take.
	limit time.Duration
}

// none chooses no test.
const none = "-"

// Tests of some packages that are run for every change, without ^Test( and )$.
const (
	networkInShort = "DelayHoldsForWhatMatches|QueuesOfSomeContainersAlone|" +
		"KilledInjectorIsCleanedFromTheJournalByClsBPF|ForeignQdiscsAndFiltersSurvive|CleanOfATargetThatIsGone"
	diskPressureInShort   = "LimitsWhatTheTargetDoes|CleanFromTheJournalAfterACrash|NodeLevelLimitsAllPodsTogether"
	memoryPressureInShort = "HoldsTheShareAskedForAndLetsItGo|HogEndsWithTheInjector"
	injectorInShort       = "AClockThatIsSetEndsAnInjection" // it sets the machine's clock
)

// machines are all there are. User-Mode Linux boots in some seconds, and has
// neither nftables for IP nor permission events of fanotify nor a second
// processor; QEMU has them all, and is slow where it has no KVM.
func machines() []machine {
	return []machine{
		{
			name: "uml", fetched: "user-mode-linux", start: startUML, limit: 40 * time.Minute,
			modules: append(vm.NetworkModules(), "loop"),
			packages: []testPackage{
				{name: "injector/network", limit: 25 * time.Minute, quick: "^Test(" + networkInShort + ")$"},
				{name: "injector/diskpressure", limit: 5 * time.Minute, quick: "^Test(" + diskPressureInShort + ")$"},
				// User-Mode Linux counts processor time by its tick, and counts time that the host
				// takes as used: half a processor measured 0.6 to 0.9; a whole one is exact.
				{name: "injector/cpupressure", limit: 5 * time.Minute, skip: "^TestBurnsTheShareAskedFor$",
					quick: "^Test(BurnsAllOfTheAllowedCPUAndNoOther|BurnerEndsWithTheInjector)$"},
				{name: "injector/memorypressure", limit: 10 * time.Minute, quick: "^Test(" + memoryPressureInShort + ")$"},
				{name: "injector/containerfailure", limit: 5 * time.Minute, quick: none},
				{name: "injector", limit: 5 * time.Minute, run: "^Test(" + injectorInShort + ")$", quick: "^Test(" + injectorInShort + ")$"},
			},
		},
		{
			// QEMU runs the tests that User-Mode Linux cannot, and netem once more.
			name: "qemu", fetched: "linux-image-amd64", needs: debian.ForKernels, start: startQEMU, limit: 70 * time.Minute,
			modules: slices.Concat(vm.NetworkModules(), vm.FilterModules(), []string{"loop", "ext4"}),
			packages: []testPackage{
				{name: "injector/diskfailure", limit: 30 * time.Minute, quick: none},
				{name: "injector/dnsdisruption", limit: 15 * time.Minute, quick: none},
				{name: "injector/nfqueue", limit: 5 * time.Minute, quick: none},
				// An older verifier, which gives up earlier.
				{name: "injector/classifier", limit: 10 * time.Minute, quick: none,
					run: "^Test(ProgramVerdicts|ProgramOfMostRulesLoads|SearchFindsTheFirstRuleThatMatches|MostRulesCostLittleMoreThanOne)$"},
				{name: "injector/network", limit: 15 * time.Minute, run: "^Test(DropTakesItsShareOfWhatMatches|" + networkInShort + ")$",
					quick: "^Test(" + networkInShort + ")$"},
				{name: "injector/diskpressure", limit: 5 * time.Minute, run: "^Test(" + diskPressureInShort + ")$"},
				// Without KVM the guest's clock does not measure processor time.
				{name: "injector/cpupressure", limit: 5 * time.Minute, run: "^TestBurnerEndsWithTheInjector$"},
				{name: "injector/memorypressure", limit: 5 * time.Minute, run: "^Test(" + memoryPressureInShort + ")$"},
				{name: "injector", limit: 5 * time.Minute, run: "^Test(" + injectorInShort + "|EffectTakenOffIsLost)$/^disk-failure$",
					quick: "^Test(" + injectorInShort + ")$"},
				// A point of each workload, with what only this kernel takes.
				{name: "injector", limit: 20 * time.Minute, run: "^Test(Injector|Cleaner)KilledBeforeEachStep$", quick: none},
			},
		},
	}
}

// either is User-Mode Linux where it runs, and QEMU elsewhere.
const either = "any"

// umlRuns returns why programs cannot run in User-Mode Linux on a processor with
// these flags of /proc/cpuinfo: nil if they can. Linux 6.1 returns a program's
// registers in its own layout, and Linux accepts them as a whole or not at all.
func umlRuns(flags []string) error {
	if slices.Contains(flags, "amx_tile") {
		return errors.New("User-Mode Linux cannot keep the registers of this processor: they are 11 kB with AMX")
	}
	return nil
}

// processor has the flags of the first processor.
func processor() ([]string, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if name, flags, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "flags" {
			return strings.Fields(flags), nil
		}
	}
	return nil, nil
}

// named is the kernel that a name stands for on a processor with these flags.
func named(name string, flags []string, logf func(string, ...any)) (string, error) {
	why := umlRuns(flags)
	switch {
	case name == "uml" && why != nil:
		return "", fmt.Errorf("%w; qemu runs here", why)
	case name == either && why != nil:
		logf("%v: in QEMU instead", why)
		return "qemu", nil
	case name == either:
		return "uml", nil
	}
	return name, nil
}

// choose returns a machine with the packages that are to be run.
func choose(name string, quick bool, tests string, packages []string) (machine, error) {
	var names []string
	for _, m := range machines() {
		names = append(names, m.name)
		if m.name != name {
			continue
		}
		for _, wanted := range packages {
			if !slices.ContainsFunc(m.packages, func(p testPackage) bool { return p.name == wanted }) {
				m.packages = append(m.packages, testPackage{name: wanted, limit: 10 * time.Minute})
			}
		}
		m.packages = slices.DeleteFunc(m.packages, func(p testPackage) bool {
			return len(packages) > 0 && !slices.Contains(packages, p.name) || quick && p.quick == none
		})
		if tests != "" { // one of a package's rows is enough for them
			m.packages = slices.CompactFunc(m.packages, func(a, b testPackage) bool { return a.name == b.name })
		}
		for i := range m.packages {
			p := &m.packages[i]
			switch {
			case tests != "":
				p.run, p.skip = tests, ""
			case quick && p.quick != "":
				p.run = p.quick
			}
		}
		return m, nil
	}
	return machine{}, fmt.Errorf("there is no kernel %q: want one of %s", name, strings.Join(names, ", "))
}
