//go:build linux

package diskfailure

import (
	"fmt"
	"time"
)

// programsPerHook is how many of Squall's programs may be at one hook of a node. The
// kernel takes about 38 there (BPF_MAX_TRAMP_LINKS), from Squall, from all tenants and
// from security agents such as Tetragon and Falco. Eight leave room for agents and
// suffice for several pods of a node.
const programsPerHook = 8

// turnPatience bounds how long an injector waits until others on its node have counted and
// attached. The lifecycle retries a failed injection.
const turnPatience = 2 * time.Minute

// checkRoom refuses to attach the wanted programs if the hook of a node would have more
// than programsPerHook of Squall's.
func checkRoom(node, hook string, attached, wanted int) error {
	if attached+wanted <= programsPerHook {
		return nil
	}
	next := "select fewer targets on this node, or wait until another disk failure there has ended"
	if wanted > programsPerHook {
		next = fmt.Sprintf("name at most %d containers in spec.containers", programsPerHook)
	}
	return fmt.Errorf("%s has %d of Squall's BPF programs at the hook %s, and this target needs %d more, above the limit of %d."+
		" Nothing was changed; %s", node, attached, hook, wanted, programsPerHook, next)
}
