// Package operations lets disruptions take part in the operations on pods while
// many things fail. Disruptions are deleted in every phase; worker and bridge are
// killed; calls fail, or get a wrong answer after they were carried out; targets
// end. Other clients remove labels and finalizers, and begin operations of their
// own. Afterwards no pod carries anything of an operation, and no pod was injected
// without permission. The tests run in a world of package world.
//
// The seed decides which deeds happen. The machine decides at which call and at
// which moment.
package operations
