package cpupressure

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/injector/testcontainer"
	"github.com/squall-chaos/squall/injector/testneeds"
)

// They run in a target's cgroups, and could do nothing else on the node.
func TestBurnersHaveNoRights(t *testing.T) {
	testneeds.BeRoot(t)
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		t.Fatal(err)
	}
	watched := os.NewFile(uintptr(self), "pidfd")
	defer watched.Close()
	made, err := burners.Of(&target.Target{}).Start("50%", watched, false)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Abandon(errors.New("the test is over")) }()
	if err := testcontainer.Powerless(made.PID()); err != nil {
		t.Error(err)
	}
}
