//go:build linux

package cpupressure

import (
	"os"
	"testing"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func TestBurnersHaveNoRights(t *testing.T) {
	testcontainer.StartsPowerless(t, func(watched *os.File) (testcontainer.Child, error) {
		return burners.Of(&target.Target{}).Start("50%", watched, false)
	})
}
