package apiserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	apiserverBinary = "kube-apiserver"
	etcdBinary      = "etcd"
)

// Binaries is the directory that holds kube-apiserver and etcd: $SQUALL_KUBE_BIN,
// or else the newest such directory the development cluster of hack/ left in the
// user's cache, below "squall". The error names the way to get them.
func Binaries() (string, error) {
	if directory := os.Getenv("SQUALL_KUBE_BIN"); directory != "" {
		if _, err := built(directory); err != nil {
			return "", fmt.Errorf("SQUALL_KUBE_BIN: %w", err)
		}
		return directory, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no kube-apiserver: set SQUALL_KUBE_BIN: %w", err)
	}
	if directory := newest(filepath.Join(cache, "squall")); directory != "" {
		return directory, nil
	}
	return "", fmt.Errorf("no kube-apiserver below %s: run `make dev-up` once, or set SQUALL_KUBE_BIN to a directory with kube-apiserver and etcd",
		filepath.Join(cache, "squall"))
}

// newest looks in root and up to three levels below it.
func newest(root string) string {
	var found string
	var latest time.Time
	for _, pattern := range []string{"", "*", "*/*", "*/*/*"} {
		directories, _ := filepath.Glob(filepath.Join(root, pattern))
		for _, directory := range directories {
			if strings.HasSuffix(directory, ".half") {
				continue // still being built
			}
			if at, err := built(directory); err == nil && at.After(latest) {
				found, latest = directory, at
			}
		}
	}
	return found
}

// built is when the kube-apiserver in directory was built; an error when either
// binary is missing.
func built(directory string) (time.Time, error) {
	if _, err := os.Stat(filepath.Join(directory, etcdBinary)); err != nil {
		return time.Time{}, err
	}
	server, err := os.Stat(filepath.Join(directory, apiserverBinary))
	if err != nil {
		return time.Time{}, err
	}
	return server.ModTime(), nil
}
