package disruption

import (
	"fmt"
	"slices"
	"time"

	"github.com/squall-chaos/squall/activities/operate"
	"github.com/squall-chaos/squall/activities/status"
	"github.com/squall-chaos/squall/api/v1beta1"
)

// operation is the state of the disruption's operation on a target of the model.
type operation struct {
	// begun is when the operation was requested. Zero: nothing of it is there, except
	// perhaps the finalizer that protects the target.
	begun time.Time
	// given is true from the driver's permission on, ending once the operation has to end or
	// be undone.
	given, ending, protected bool
}

func (o operation) isBegun() bool { return !o.begun.IsZero() }
func (o operation) holds() bool   { return o.given && !o.ending }

// recorded is the state of a target's operation in the record of its shard.
type recorded int

const (
	notAsked recorded = iota
	asked
	wasGiven
)

// drive is the driver. It gives a target two seconds after the request, and removes the
// labels once the operation has to end. Beside it the bridge removes what is left of an
// operation whose disruption is over.
func (c *cluster) drive(t *target) {
	o := &t.operation
	if t.gone {
		*o = operation{}
		return
	}
	if c.isSettled() && c.pods["chaos-"+t.name] == nil {
		o.protected, o.ending = false, o.isBegun()
	}
	switch {
	case o.ending:
		o.begun, o.given, o.ending = time.Time{}, false, false
	case o.isBegun() && !c.held && c.now().Sub(o.begun) >= 2*time.Second:
		o.given = true
	}
}

// isSettled is true once no component handles the disruption any more.
func (c *cluster) isSettled() bool {
	return !c.there || !c.finalizer && c.status.Phase == v1beta1.PhaseFinished
}

// operate follows activities.OperateTargets.
func (c *cluster) operate(a *attempt, in operate.Input) (done operate.Result) {
	for _, number := range in.Shards {
		if number >= len(c.shards) {
			panic(stopped{errCall}) // the record is gone
		}
		before := slices.Clone(c.shards[number])
		after, changed := slices.Clone(before), false
		for i := range after {
			if !after[i].waited() {
				continue
			}
			c.operateTarget(a, &after[i], slices.Contains(in.Over, number))
			changed = changed || after[i] != before[i]
			if after[i].released {
				done.Lost++
			}
		}
		if changed {
			a.write(fmt.Sprintf("note how far the operations of shard %d are", number), func(bool) {
				if number < len(c.shards) && slices.Equal(c.shards[number], before) {
					c.shards[number] = after
				}
			})
		}
		waits := slices.ContainsFunc(after, claimed.waited)
		if waits {
			done.Waiting = append(done.Waiting, number)
		}
		if slices.ContainsFunc(after, func(t claimed) bool {
			return !t.released && t.state == wasGiven && (!waits || c.pods["chaos-"+t.name] == nil)
		}) {
			done.Given = append(done.Given, number)
		}
	}
	return done
}

func (t claimed) waited() bool { return !t.released && t.state != wasGiven }

// operateTarget follows activities.decide.
func (c *cluster) operateTarget(a *attempt, t *claimed, over bool) {
	o := &t.operation
	switch {
	case t.gone:
		t.released = true
	case o.holds():
		if !o.protected {
			// The write is refused if the object has changed meanwhile.
			a.write("keep others from "+t.name, func(bool) { o.protected = o.holds() })
		}
		t.state = wasGiven
	case !o.isBegun() && (t.state == asked || over):
		t.released = true
	case !o.isBegun():
		a.write("ask for "+t.name, func(late bool) { c.ask(t.target, late) })
		t.state = asked
	case over:
		a.write("undo the operation on "+t.name, func(bool) { o.ending = o.isBegun() })
		t.released = true
	}
}

func (c *cluster) ask(t *target, late bool) {
	if c.cleaning && !late {
		c.violated("%s was asked for after the cleaning began", t.name)
	}
	if !t.operation.isBegun() {
		t.operation.begun = c.now()
	}
}

// mayBeDisrupted follows activities.given: the check right before the injection.
func (t claimed) mayBeDisrupted() bool { return t.state == wasGiven && t.operation.holds() }

// endOperations follows activities.EndOperations.
func (c *cluster) endOperations(a *attempt, in operate.EndInput) (ended operate.EndResult) {
	for _, t := range c.targets {
		o := &t.operation
		active := slices.ContainsFunc(slices.Concat(c.shards...), func(s claimed) bool { return s.target == t && !s.released })
		if t.gone || c.pods["chaos-"+t.name] != nil || in.OnlyEnded && active {
			continue
		}
		if o.protected {
			a.write("let others have "+t.name, func(bool) { o.protected = false })
		}
		if o.isBegun() && !o.ending {
			a.write("end the operation on "+t.name, func(late bool) {
				if c.pods["chaos-"+t.name] != nil && !late {
					c.violated("%s is given back while its chaos pod is there", t.name)
				}
				o.ending = o.isBegun()
			})
		}
		if o.isBegun() {
			ended.Left++
		}
	}
	return ended
}

// operationsLeft follows activities.operationsLeft.
func (c *cluster) operationsLeft(e status.FinishInput) (left int) {
	for _, t := range c.targets {
		if e.Operated && !t.gone && t.operation.isBegun() && !t.operation.ending {
			left++
		}
	}
	return left
}

// operated are the targets on which something of the operation is left.
func (c *cluster) operated() (all []string) {
	for _, t := range c.targets {
		if !t.gone && t.operation != (operation{}) {
			all = append(all, fmt.Sprintf("%s: %+v", t.name, t.operation))
		}
	}
	return all
}
