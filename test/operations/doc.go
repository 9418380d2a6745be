// Package operations lets disruptions take part in the operations on pods while
// everything goes wrong that can: they are deleted in whichever phase, worker and
// bridge are killed, calls fail, or are answered wrongly after they were carried out,
// targets end, labels and finalizers are taken off by others, who also begin operations of
// their own. Afterwards no pod carries anything of an operation, and nothing was
// injected that was not given. It runs in a world of package world.
//
// What is done follows from the seed; which call, and which moment it meets, is up
// to the machine.
package operations
