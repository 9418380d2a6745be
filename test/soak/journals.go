package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// journals are the names of a node's journals. They begin with the UIDs of
// disruption and target, and an injector or cleaner removes its own last: a
// node without is clean.
func (n node) journals() []string {
	entries, _ := os.ReadDir(filepath.Join(n.root, "var/lib/squall/journal")) // none before the first injection
	var names []string
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// holds tells whether a journal whose name begins so is on the node.
func (n node) holds(prefix string) bool {
	return slices.ContainsFunc(n.journals(), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// journalsOf names the nodes that hold journals of a disruption.
func (c *cluster) journalsOf(uid types.UID) (nodes []string) {
	for _, n := range c.nodes {
		if n.holds(string(uid) + "_") {
			nodes = append(nodes, n.name)
		}
	}
	return nodes
}
