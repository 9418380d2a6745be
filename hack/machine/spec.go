// Package machine is one machine of the development cluster: a set of Linux
// namespaces with its own processes, mounts, network, host name and control
// groups. A Spec is the data of one machine; Enter and Run build it. On the host
// only a few cgroup directories show.
package machine

import (
	"fmt"
	"os"
	"path/filepath"
)

// Spec is the whole input of the first process of a machine.
type Spec struct {
	Name    string   // "cp" or "node1"
	Host    string   // host name
	Cgroup  string   // name of its directory in every hierarchy
	Root    string   // empty directory of the host, mount point of the new root
	Base    string   // where the host's own files are seen: "" on the host itself
	Logs    string   // directory of the host for one log file per daemon
	Binds   []Bind   // in this order
	Files   []File   // written into the new root after the binds
	Sysctls []Sysctl // written once, relative to /proc/sys; a missing one is skipped
	Shields []Sysctl // files that hide the real ones, so that writing does not reach the host
	Daemons []Daemon
	Guest   *Guest // only for a virtual machine
}

// Bind shows a directory of the host in the machine.
type Bind struct {
	Source, Target string
	ReadOnly       bool
}

// File is a file of the machine.
type File struct{ Path, Content string }

// Sysctl is a kernel setting, its name with slashes.
type Sysctl struct{ Name, Value string }

// Daemon is a program that the machine's first process starts.
type Daemon struct {
	Name string
	Args []string // the program's path first
	// Once marks a program that ends. Others are started again when they end.
	Once bool
	// WaitFor lists what must be so before the start: "tcp ADDRESS",
	// "unix PATH", "https URL", or "done NAME" for a daemon with Once.
	WaitFor []string
}

// where things are inside a machine
const (
	programs = "/opt/squall"
	pkiDir   = "/etc/squall/pki"
	confDir  = "/etc/squall"
)

// program is the path inside a machine of a built program.
func program(tool, name string) string { return filepath.Join(programs, tool, name) }

// Prepare creates the directories of the host that the machine needs. It is
// idempotent.
func (s Spec) Prepare() error {
	dirs := []string{s.Root, s.Logs}
	for _, b := range s.Binds {
		if !b.ReadOnly {
			dirs = append(dirs, b.Source)
		}
	}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make the directories of %s: %w", s.Name, err)
		}
	}
	return nil
}
