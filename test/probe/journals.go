//go:build linux

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

// journals is where injectors keep them on a node.
const journals = "/var/lib/squall/journal"

var spoiled = []byte("spoiled by a test\n")

func spoil(_ context.Context, args []string) (any, error) {
	return rewrite("spoil", args, func(journal []byte) []byte { return append(bytes.Clone(spoiled), journal...) })
}

func restore(_ context.Context, args []string) (any, error) {
	return rewrite("restore", args, func(journal []byte) []byte { return bytes.TrimPrefix(journal, spoiled) })
}

// rewrite changes every journal of a disruption on this node.
func rewrite(command string, args []string, change func([]byte) []byte) (any, error) {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	uid := flags.String("disruption", "", "`UID` of the disruption")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(journals, *uid+"_*.json"))
	if err != nil || *uid == "" || len(files) == 0 {
		return nil, fmt.Errorf("no journal of disruption %q is in %s: %v", *uid, journals, err)
	}
	for _, file := range files {
		journal, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(file, change(journal), 0o600); err != nil {
			return nil, err
		}
	}
	return files, nil
}
