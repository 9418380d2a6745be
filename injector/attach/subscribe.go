//go:build linux

package attach

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/squall-chaos/squall/injector/target"
)

// Subscribe tells of links that come, go and change in the network namespace at
// netns, until done is closed. The channel holds at most one notice; it is closed
// when the kernel could not tell everything, and then it is time to look and to
// subscribe again.
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
			default: // one that nobody has taken says as much
			}
		}
	}()
	return notices, nil
}
