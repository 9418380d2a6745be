//go:build linux

package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// hostsFile is the file with the hosts of services and cloud.
type hostsFile struct {
	path string
	// seen is the file's state when its hosts were last put into force.
	seen os.FileInfo
}

// hosts reads the file. It returns no hosts if the disruption names no services and no
// cloud.
func (f *hostsFile) hosts(params v1beta1.NetworkDisruption) ([]v1beta1.NetworkHost, os.FileInfo, error) {
	if !params.NeedsResolving() {
		return nil, nil, nil
	}
	if f.path == "" {
		return nil, nil, errors.New("services and cloud: this chaos pod was not given their addresses, so its worker has another version; update both")
	}
	// This comes before the read, so that a change in between is detected the next time.
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("addresses of services and cloud: %w", err)
	}
	text, err := os.ReadFile(f.path)
	if err != nil {
		return nil, nil, fmt.Errorf("addresses of services and cloud: %w", err)
	}
	hosts, err := parseHosts(text)
	if err != nil {
		return nil, nil, fmt.Errorf("addresses of services and cloud in %s: %w", f.path, err)
	}
	return hosts, info, nil
}

// parseHosts reads a JSON list of hosts. It refuses an unknown field, which could narrow
// the disruption.
func parseHosts(text []byte) ([]v1beta1.NetworkHost, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var hosts []v1beta1.NetworkHost
	if err := decoder.Decode(&hosts); err != nil {
		return nil, fmt.Errorf("want a JSON list of hosts: %w", err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("want a JSON list of hosts, and nothing after it")
	}
	return hosts, nil
}

// changed is true when the file is not the one of the hosts in force. The kubelet never
// writes to it, but replaces it.
func (f *hostsFile) changed() bool {
	info, err := os.Stat(f.path)
	if err != nil {
		return false // the file is only being replaced
	}
	return f.seen == nil || !os.SameFile(info, f.seen) || !info.ModTime().Equal(f.seen.ModTime())
}
