package explain

import (
	"fmt"
	"strings"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// ofKind describes a fault with its parameters. An unknown fault refers to its page.
func ofKind(fault v1beta1.Fault, s v1beta1.DisruptionSpec) []string {
	switch p := fault.Params.(type) {
	case *v1beta1.ContainerFailure:
		return containerFailure(p, s)
	case *v1beta1.CPUPressure:
		share := "100%"
		if p.Count != nil {
			share = p.Count.String()
		}
		if !strings.HasSuffix(share, "%") {
			share += " cores"
		}
		return []string{"burns " + share + " of the processor time that the target may use"}
	case *v1beta1.DiskFailure:
		return diskFailure(p)
	case *v1beta1.DiskPressure:
		return diskPressure(p)
	case *v1beta1.DNSDisruption:
		return dns(p)
	case *v1beta1.GRPCDisruption:
		return grpc(p)
	case *v1beta1.MemoryPressure:
		line := fmt.Sprintf("fills memory until %s of the target's limit is in use", p.TargetPercent)
		if p.RampDuration != nil && p.RampDuration.Duration > 0 {
			line += ", over " + span(p.RampDuration)
		}
		return []string{line}
	case *v1beta1.NetworkDisruption:
		return network(p)
	case *v1beta1.NodeFailure:
		if p.Shutdown {
			return []string{"powers the node off, with everything on it; nothing can take that back"}
		}
		return []string{"panics the kernel of the node, with everything on it; nothing can take that back"}
	case *v1beta1.PodReplacement:
		return podReplacement(p)
	}
	return []string{"as its page describes"}
}

func containerFailure(p *v1beta1.ContainerFailure, s v1beta1.DisruptionSpec) []string {
	signal := "SIGTERM, which a process may ignore"
	if p.Forced {
		signal = "SIGKILL"
	}
	line := "ends containers by " + signal
	if p.Interval == nil {
		return []string{line + ", once"}
	}
	line += ", every " + span(p.Interval)
	if s.MaxRuns != nil {
		line += fmt.Sprintf(", at most %d times each", *s.MaxRuns)
	}
	return []string{line}
}

func diskFailure(p *v1beta1.DiskFailure) []string {
	code, share := "ENOENT", "every opening of a file"
	if p.OpenatSyscall != nil {
		code = p.OpenatSyscall.ExitCode
	}
	if p.Probability.Given() && p.Probability.String() != "100%" {
		share = p.Probability.String() + " of the openings of files"
	}
	return []string{fmt.Sprintf("makes %s below %s fail with %s", share, strings.Join(p.Paths, ", "), code)}
}

func diskPressure(p *v1beta1.DiskPressure) []string {
	var limits []string
	for _, limit := range []struct {
		value *int64
		unit  string
	}{
		{p.Throttling.ReadBytesPerSec, "bytes/s read"}, {p.Throttling.WriteBytesPerSec, "bytes/s written"},
		{p.Throttling.ReadIOPSPerSec, "reads/s"}, {p.Throttling.WriteIOPSPerSec, "writes/s"},
	} {
		if limit.value != nil && *limit.value > 0 {
			limits = append(limits, fmt.Sprintf("%d %s", *limit.value, limit.unit))
		}
	}
	if len(limits) == 0 {
		return []string{"leaves the disk below " + p.Path + " alone: no limit is set"}
	}
	return []string{"limits the disk below " + p.Path + " to " + strings.Join(limits, ", ")}
}

func dns(p *v1beta1.DNSDisruption) []string {
	lines := []string{"answers these names falsely, and every other truly"}
	for _, r := range p.Records {
		lines = append(lines, fmt.Sprintf("%s and below, %s: %s", r.Hostname, r.Record.Type, r.Record.Value))
	}
	return lines
}

func grpc(p *v1beta1.GRPCDisruption) []string {
	lines := []string{fmt.Sprintf("alters what the gRPC server on port %d answers, which must run our interceptor", p.Port)}
	for _, e := range p.Endpoints {
		share := "an equal share of the other calls"
		if e.QueryPercent > 0 {
			share = fmt.Sprintf("%d%% of the calls", e.QueryPercent)
		}
		answer := "an empty message"
		if e.ErrorToReturn != "" {
			answer = e.ErrorToReturn
		}
		lines = append(lines, fmt.Sprintf("%s: %s gets %s", e.TargetEndpoint, share, answer))
	}
	return lines
}

func podReplacement(p *v1beta1.PodReplacement) []string {
	line := "deletes the pod while its node takes no new ones, so that it starts elsewhere"
	grace := "with its own grace period"
	switch {
	case p.ForceDelete:
		grace = "without a grace period"
	case p.GracePeriodSeconds != nil:
		grace = fmt.Sprintf("with a grace period of %d s", *p.GracePeriodSeconds)
	}
	storage := "its volume claims are deleted too, with what they hold, unless other pods mount them"
	if p.DeleteStorage != nil && !*p.DeleteStorage {
		storage = "its volume claims stay"
	}
	return []string{line, grace, storage}
}
