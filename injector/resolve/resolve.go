//go:build linux

// Package resolve finds the addresses of names as a target would: in its network namespace,
// by its own resolv.conf and hosts file. It promises that a container cannot use these
// files to lead it out of the container, block it or fill it. A process without
// capabilities reads the answers.
package resolve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/squall-chaos/squall/injector/oneline"
)

const (
	// queryTimeout is for one answer of one server, nameTimeout for all servers, search
	// domains and attempts together.
	queryTimeout = 2 * time.Second
	nameTimeout  = 20 * time.Second
	// queryAttempts is how often every server is asked.
	queryAttempts = 3
	// namesAtOnce are resolved at the same time.
	namesAtOnce = 16
)

var errNoSuchName = errors.New("no such name")

// Resolver resolves names like a process in the network namespace at the path Netns that
// sees the files below Root.
type Resolver struct {
	Who         string // for errors: "the pod"
	Netns, Root string
}

// All resolves names by the first of the resolvers that knows each. The error names every
// name that no resolver knows.
func All(ctx context.Context, names []string, resolvers []Resolver) (map[string][]netip.Addr, error) {
	resolved, reasons := map[string][]netip.Addr{}, map[string][]string{}
	for _, r := range resolvers {
		var unknown []string
		for i, answer := range r.ask(ctx, names) {
			if answer.Error == "" {
				resolved[names[i]] = answer.Addresses
				continue
			}
			reasons[names[i]] = append(reasons[names[i]], fmt.Sprintf("by %s: %s", r.Who, answer.Error))
			unknown = append(unknown, names[i])
		}
		names = unknown
	}
	if len(names) == 0 {
		return resolved, nil
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, fmt.Errorf("resolve host %q: %s", name, strings.Join(reasons[name], "; ")))
	}
	return nil, oneline.Join(errs...)
}

// lookup resolves one name, in the child.
func (q question) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	if addresses := lookupHosts(q.Hosts, name); len(addresses) > 0 {
		return addresses, nil
	}
	if q.NoConf != "" {
		return nil, errors.New(q.NoConf)
	}
	config, err := parseConfig(q.Conf)
	if err != nil {
		return nil, err
	}
	if len(config.Servers) == 0 {
		return nil, errors.New("resolv.conf names no server")
	}
	return search(ctx, config, name)
}

// SearchDomains returns the domains with which the resolver of a container, whose files are
// below root, completes names.
func SearchDomains(root string) ([]string, error) {
	conf, err := readBelow(root, "etc/resolv.conf")
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(conf)
	if err != nil {
		return nil, err
	}
	return config.Search, nil
}

func parseConfig(conf string) (*dns.ClientConfig, error) {
	config, err := dns.ClientConfigFromReader(strings.NewReader(conf))
	if err != nil {
		return nil, fmt.Errorf("read resolv.conf: %w", err)
	}
	return config, nil
}

// search tries the name with each search domain of resolv.conf, and stops at the first that
// has an address.
func search(ctx context.Context, config *dns.ClientConfig, name string) ([]netip.Addr, error) {
	var last error
	for _, candidate := range config.NameList(name) {
		addresses, err := queryBoth(ctx, config, candidate)
		if len(addresses) > 0 {
			return addresses, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

// queryBoth asks for both families. An answer for one is enough: some servers give none for
// the other.
func queryBoth(ctx context.Context, config *dns.ClientConfig, name string) ([]netip.Addr, error) {
	ipv4, err := query(ctx, config, name, dns.TypeA)
	if errors.Is(err, errNoSuchName) {
		return nil, err
	}
	ipv6, err6 := query(ctx, config, name, dns.TypeAAAA)
	addresses := append(ipv4, ipv6...)
	if len(addresses) > 0 {
		return addresses, nil
	}
	return nil, cmp.Or(err, err6, fmt.Errorf("%s has no address", name))
}

// query asks the servers in turn until one of them knows whether the name has
// such records.
func query(ctx context.Context, config *dns.ClientConfig, name string, qtype uint16) ([]netip.Addr, error) {
	question := new(dns.Msg).SetQuestion(name, qtype)
	question.SetEdns0(1232, false)
	var last error
	for range queryAttempts {
		for _, server := range config.Servers {
			answer, err := exchange(ctx, question, net.JoinHostPort(server, config.Port))
			if ctx.Err() != nil {
				return nil, fmt.Errorf("%s: no answer in time: %w", name, oneline.Join(ctx.Err(), last))
			}
			if err != nil {
				last = fmt.Errorf("%s: ask %s: %w", name, server, err)
				continue
			}
			switch answer.Rcode {
			case dns.RcodeSuccess:
				return addressesIn(answer), nil
			case dns.RcodeNameError:
				return nil, fmt.Errorf("%s, answers %s: %w", name, server, errNoSuchName)
			}
			last = fmt.Errorf("%s: %s answers %s", name, server, dns.RcodeToString[answer.Rcode])
		}
	}
	return nil, last
}

// exchange asks again by TCP if an answer does not fit into a datagram.
func exchange(ctx context.Context, question *dns.Msg, server string) (*dns.Msg, error) {
	client := dns.Client{Timeout: queryTimeout}
	answer, _, err := client.ExchangeContext(ctx, question, server)
	if err != nil || !answer.Truncated {
		return answer, err
	}
	client.Net = "tcp"
	answer, _, err = client.ExchangeContext(ctx, question, server)
	return answer, err
}

func addressesIn(answer *dns.Msg) []netip.Addr {
	var addresses []netip.Addr
	for _, record := range answer.Answer {
		var ip net.IP
		switch record := record.(type) {
		case *dns.A:
			ip = record.A
		case *dns.AAAA:
			ip = record.AAAA
		}
		if address, ok := netip.AddrFromSlice(ip); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}

// lookupHosts finds a name in the text of an /etc/hosts.
func lookupHosts(text, name string) []netip.Addr {
	var addresses []netip.Addr
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		same := func(alias string) bool { return strings.EqualFold(alias, strings.TrimSuffix(name, ".")) }
		address, err := netip.ParseAddr(fields[0])
		if err == nil && slices.ContainsFunc(fields[1:], same) {
			addresses = append(addresses, address.Unmap())
		}
	}
	return addresses
}
