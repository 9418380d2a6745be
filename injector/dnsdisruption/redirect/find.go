//go:build linux

package redirect

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/target"
)

// Inside runs f in an open network namespace. Files and sockets that f opens stay there.
func Inside(netns *os.File, f func() error) error {
	return target.Do(fmt.Sprintf("/proc/self/fd/%d", netns.Fd()), f)
}

// Tables lists the names of all tables of Squall in a network namespace, from any process.
func Tables(netns *os.File) ([]string, error) {
	if err := target.CheckNetfilter(); without(err) {
		return nil, nil
	}
	conn, err := nftables.New(nftables.WithNetNSFd(int(netns.Fd())))
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if without(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	var names []string
	for _, table := range tables {
		if strings.HasPrefix(table.Name, tablePrefix+separator) {
			names = append(names, table.Name)
		}
	}
	return names, nil
}

// without is true for the error of a kernel without nftables.
func without(err error) bool {
	return errors.Is(err, unix.EPROTONOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) ||
		errors.Is(err, unix.EAFNOSUPPORT)
}
