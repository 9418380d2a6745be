package explain

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func network(n *v1beta1.NetworkDisruption) []string {
	lines := []string{strings.Join(effects(n), ", ")}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if h := n.HTTP; h != nil {
		add("only packets that begin a plain HTTP request: %s", httpOf(h))
	}
	for _, host := range n.Hosts {
		add("%s", traffic(host))
	}
	for _, service := range n.Services {
		add("to %s", serviceName(service))
	}
	if n.Cloud != nil {
		for _, provider := range []struct {
			name     string
			services []v1beta1.NetworkCloudService
		}{{"AWS", n.Cloud.AWS}, {"Google", n.Cloud.GCP}, {"Datadog", n.Cloud.Datadog}} {
			for _, service := range provider.services {
				add("%s %s of %s", direction(service.Flow), service.ServiceName, provider.name)
			}
		}
	}
	if len(lines) == 1 {
		add("everything that the target sends")
	}
	return lines
}

func effects(n *v1beta1.NetworkDisruption) []string {
	var all []string
	share := func(percent int, what string) {
		if percent > 0 {
			all = append(all, fmt.Sprintf("%s %d%% of the packets", what, percent))
		}
	}
	share(int(n.Drop), "drops")
	share(int(n.Corrupt), "corrupts")
	share(int(n.Duplicate), "duplicates")
	if n.Delay > 0 {
		jitter := n.DelayJitter
		if jitter == 0 {
			jitter = 10
		}
		all = append(all, fmt.Sprintf("delays packets by %d ms, give or take %d%%", n.Delay, jitter))
	}
	if n.BandwidthLimit > 0 {
		all = append(all, fmt.Sprintf("limits them to %d bytes/s together", n.BandwidthLimit))
	}
	return all
}

// traffic describes the packets of a host.
func traffic(h v1beta1.NetworkHost) string {
	peer := h.Host
	if peer == "" {
		peer = "every host"
	}
	text := direction(h.Flow) + " " + peer
	if h.Port > 0 {
		text += fmt.Sprintf(", port %d", h.Port)
	}
	if h.Protocol != "" {
		text += ", " + strings.ToLower(h.Protocol)
	}
	switch h.ConnState {
	case "new":
		text += ", new connections"
	case "est":
		text += ", established connections"
	}
	if h.Percentage != nil && *h.Percentage < 100 {
		text += fmt.Sprintf(", %d%% of its addresses", *h.Percentage)
	}
	return text
}

func direction(flow string) string {
	if flow == "ingress" {
		return "from"
	}
	return "to"
}

func serviceName(service v1beta1.NetworkService) string {
	name := "service " + service.Name
	if service.Namespace != "" {
		name += " of namespace " + service.Namespace
	}
	var ports []string
	for _, port := range service.Ports {
		switch {
		case port.Name != "":
			ports = append(ports, port.Name)
		case port.Port > 0:
			ports = append(ports, fmt.Sprint(port.Port))
		}
	}
	if len(ports) > 0 {
		name += ", ports " + strings.Join(ports, ", ")
	}
	if service.Percentage != nil && *service.Percentage < 100 {
		name += fmt.Sprintf(", %d%% of its addresses", *service.Percentage)
	}
	return name
}

func httpOf(h *v1beta1.NetworkHTTP) string {
	methods, paths := "every method", "every path"
	if len(h.Methods) > 0 {
		methods = strings.Join(h.Methods, ", ")
	}
	if len(h.Paths) > 0 {
		paths = "paths below " + strings.Join(h.Paths, ", ")
	}
	return methods + ", " + paths
}

func networkLeftOut(s v1beta1.DisruptionSpec) []string {
	var lines []string
	for _, host := range s.Network.AllowedHosts {
		lines = append(lines, "traffic "+traffic(host)+", and the answers")
	}
	if s.Level == v1beta1.LevelNode {
		lines = append(lines, "the node's own SSH server, and 169.254.169.254")
	} else {
		lines = append(lines, "traffic of a pod with its default gateways and its node, so that probes work")
	}
	if s.Network.DisableDefaultAllowedHosts {
		return append(lines, "not left out: the hosts that the operator allows everywhere")
	}
	return append(lines, "traffic with the hosts that the operator allows everywhere")
}
