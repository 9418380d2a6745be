//go:build linux

package network

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/classifier"
)

// sockets judges arriving packets where sockets receive them. Only there the container is
// known.
type sockets struct {
	program *ebpf.Program // nil if links can judge what arrives
	links   attach.CgroupLinks
}

// atSockets is true if arriving packets must be judged at sockets: only some containers are
// meant, and no port identifies them.
func (n namespace) atSockets(rules []classifier.Rule) bool {
	return len(n.dirs) > 0 && slices.ContainsFunc(rules, func(r classifier.Rule) bool {
		return r.Direction == classifier.Ingress && r.Effect != classifier.Effect{} && r.Port == 0
	})
}

// directions are those in which links judge.
func (n namespace) directions(rules []classifier.Rule) []classifier.Direction {
	return slices.DeleteFunc(classifier.Directions(rules), func(d classifier.Direction) bool {
		return d == classifier.Ingress && n.atSockets(rules)
	})
}

func (n namespace) loadAtSockets(rules []classifier.Rule) (*ebpf.Program, error) {
	if !n.atSockets(rules) {
		return nil, nil
	}
	spec := n.spec(classifier.Ingress, rules)
	spec.AtSockets = true
	return attach.LoadAtSockets(classifier.Program(spec), n.Mark)
}

func (s *sockets) attach(dirs []string) (err error) {
	if s.program == nil {
		return nil
	}
	if s.links, err = attach.Cgroups(dirs, s.program); err != nil {
		return fmt.Errorf("flow ingress without a port needs to attach BPF programs to cgroups (Linux 5.7): %w;"+
			" add the port the container listens on", err)
	}
	return nil
}

// exchange replaces the program by that of other rules.
func (s *sockets) exchange(fresh *ebpf.Program) error {
	if s.program == nil || fresh == nil {
		return nil
	}
	if err := s.links.Replace(fresh); err != nil {
		fresh.Close()
		return err
	}
	s.program.Close()
	s.program = fresh
	return nil
}
