package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// journals are the names of a node's journals. They begin with the UIDs of
// disruption and target, and an injector or cleaner removes its own last: a node
// without is clean. They are read from the node's disk, which is there while the
// node is not. A disk that cannot be read proves nothing.
func (n node) journals() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(n.squall, "journal"))
	if errors.Is(err, fs.ErrNotExist) { // as before the first injection, unless the disk itself is not there
		_, err = os.Stat(n.squall)
	}
	if err != nil {
		return nil, fmt.Errorf("look for journals on node %s: %w", n.name, err)
	}
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// holds reports whether a journal whose name begins so is on the node.
func (n node) holds(prefix string) (bool, error) {
	names, err := n.journals()
	return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) }), err
}

// healed reports whether the node was seen without a journal whose name begins so.
func (n node) healed(prefix string) bool {
	held, err := n.holds(prefix)
	return err == nil && !held
}

// journalsOf names the nodes that hold journals of a disruption. The error is
// about nodes that could not be looked at.
func (c *cluster) journalsOf(uid types.UID) (nodes []string, err error) {
	for _, n := range c.nodes {
		held, unseen := n.holds(string(uid) + "_")
		if held {
			nodes = append(nodes, n.name)
		}
		err = errors.Join(err, unseen)
	}
	return nodes, err
}
