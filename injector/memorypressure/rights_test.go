//go:build linux

package memorypressure

import (
	"os"
	"testing"

	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testcontainer"
)

func TestHogsHaveNoRights(t *testing.T) {
	testcontainer.StartsPowerless(t, func(watched *os.File) (testcontainer.Child, error) {
		return hogs.Of(&target.Target{}).Start("1% 0s /", watched, false)
	})
}
