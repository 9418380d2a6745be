//go:build linux

package attach

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/injector/target"
)

// Subscribe sends a notice when links of the network namespace at netns are added, removed
// or changed, until done is closed. The channel holds at most one notice. It is closed when
// the kernel dropped notices. The caller must then list the links and subscribe again.
func Subscribe(netns string, done <-chan struct{}) (<-chan struct{}, error) {
	updates := make(chan netlink.LinkUpdate)
	err := target.Do(netns, func() error { return netlink.LinkSubscribe(updates, done) })
	if err != nil {
		return nil, fmt.Errorf("subscribe to the links of %s: %w", netns, err)
	}
	notices := make(chan struct{}, 1)
	go func() {
		defer close(notices)
		for range updates {
			select {
			case notices <- struct{}{}:
			default: // the notice in the channel covers this one
			}
		}
	}()
	return notices, nil
}
