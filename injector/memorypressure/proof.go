//go:build linux

package memorypressure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// leastReached is how much of the goal must be in use, in percent. The hog follows the
// target, which may have taken more a moment ago.
const leastReached = 90

// Prove adds up the memory of hogs, and the use of their places.
func (i *Injector) Prove(context.Context) (v1beta1.EffectState, string, error) {
	percent, err := i.params.TargetPercent.Value()
	if err != nil {
		return "", "", err
	}
	held, err := i.held()
	if err != nil {
		return "", "", err
	}
	reached, satisfied, figures := true, true, []string{}
	for _, dir := range i.dirs {
		levels, err := readLevels(dir)
		if err != nil {
			return "", "", err
		}
		bound := binding(levels)
		goal := min(share(bound.limit, percent), bound.ceiling())
		reached = reached && bound.used*100 >= goal*leastReached
		satisfied = satisfied && held < leastHeld && bound.used >= goal
		figures = append(figures, fmt.Sprintf("%s of %s in use, %d%% asked for", size(bound.used), size(bound.limit), percent))
	}
	evidence := fmt.Sprintf("%s held; %s", size(held), strings.Join(figures, ", "))
	switch {
	case satisfied:
		return v1beta1.EffectNothingMatchedYet, "the target itself uses as much: " + evidence, nil
	case held >= leastHeld && reached:
		return v1beta1.EffectProven, evidence, nil
	case i.ramping():
		return v1beta1.EffectNothingMatchedYet, "rampDuration is not over: " + evidence, nil
	}
	return v1beta1.EffectIneffective, evidence, nil
}

func (i *Injector) ramping() bool {
	return i.params.RampDuration != nil && time.Since(i.began) < i.params.RampDuration.Duration
}

// leastHeld is the least that counts as held, in bytes: an idle hog has its own memory, of
// which some is not in its program.
const leastHeld = 2 << 20

// held is how much memory the hogs have beyond that of the program itself.
func (i *Injector) held() (int64, error) {
	pids := i.hogs.Running()
	if len(pids) == 0 {
		return 0, errors.New("no hog runs")
	}
	var all int64
	for _, pid := range pids {
		status, err := os.ReadFile(filepath.Join(i.target.ProcDir(), strconv.Itoa(pid), "status"))
		if err != nil {
			continue // it has just ended
		}
		resident, err := field(string(status), "RssAnon:")
		if err == nil {
			all += max(resident<<10-ownMemory, 0)
		}
	}
	return all, nil
}

// ownMemory is about what the runtime of a hog uses, in bytes.
const ownMemory = 3 << 20
