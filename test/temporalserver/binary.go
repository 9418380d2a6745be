// Package temporalserver finds the real Temporal server that tests run against.
package temporalserver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Binary is $SQUALL_TEMPORAL_BIN, or the newest that the development cluster of
// hack/ left in the user's cache. The error names the way to get one.
func Binary() (string, error) {
	if binary := os.Getenv("SQUALL_TEMPORAL_BIN"); binary != "" {
		return binary, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no Temporal server: set SQUALL_TEMPORAL_BIN: %w", err)
	}
	found, _ := filepath.Glob(filepath.Join(cache, "squall", "temporal-*", "temporal"))
	var newest string
	var latest time.Time
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(latest) {
			newest, latest = path, info.ModTime()
		}
	}
	if newest == "" {
		return "", errors.New("no Temporal server: run `make dev-up` once, or set SQUALL_TEMPORAL_BIN to the program of hack/temporal")
	}
	return newest, nil
}
