package v1beta1

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateProbes(t *testing.T) {
	web := func(change func(*Probe)) Probe {
		p := Probe{Name: "web", ProbeHandler: ProbeHandler{HTTPGet: &HTTPGetProbe{Host: "checkout.shop.svc", Port: intstr.FromInt32(8080)}}}
		if change != nil {
			change(&p)
		}
		return p
	}
	tcp := func(scope ProbeScope, host string, port intstr.IntOrString) Probe {
		return Probe{Name: "tcp", Scope: scope, ProbeHandler: ProbeHandler{TCPSocket: &TCPSocketProbe{Host: host, Port: port}}}
	}
	ready := func(least string, selector map[string]string) Probe {
		value := intstr.Parse(least)
		return Probe{Name: "ready", ProbeHandler: ProbeHandler{PodsReady: &PodsReadyProbe{Selector: selector, Min: &value}}}
	}
	query := func(scope ProbeScope, query, comparison string) Probe {
		return Probe{Name: "errors", Scope: scope, ProbeHandler: ProbeHandler{Prometheus: &PrometheusProbe{Query: query, Comparison: comparison}}}
	}
	exec := func(scope ProbeScope, command ...string) Probe {
		return Probe{Name: "exec", Scope: scope, ProbeHandler: ProbeHandler{Exec: &ExecProbe{Command: command}}}
	}
	budget := func(percent PercentNumber, window time.Duration) func(*Probe) {
		return func(p *Probe) { p.Budget = &ProbeBudget{Percent: percent, Window: Duration{Duration: window}} }
	}
	app := map[string]string{"app": "checkout"}
	http := intstr.FromString("http")
	often := func(p Probe, seconds int32) Probe {
		p.PeriodSeconds = seconds
		return p
	}
	for _, c := range []struct {
		name   string
		level  Level
		probes []Probe
		want   string // of the only error: its field and some of its words; empty: none
	}{
		{"httpGet", LevelPod, []Probe{web(nil)}, ""},
		{"httpGet at level node", LevelNode, []Probe{web(nil)}, ""},
		{"an address", LevelPod, []Probe{tcp(ProbeOnce, "10.1.2.3", intstr.FromInt32(80))}, ""},
		{"per target, a named port", LevelPod, []Probe{tcp(ProbePerTarget, "", http)}, ""},
		{"grpc", LevelPod, []Probe{{Name: "g", ProbeHandler: ProbeHandler{GRPC: &GRPCProbe{Host: "a", Port: 1}}}}, ""},
		{"exec", LevelPod, []Probe{exec(ProbePerTarget, "true")}, ""},
		{"podsReady", LevelPod, []Probe{ready("80%", app)}, ""},
		{"prometheus", LevelPod, []Probe{query("", "up", "< 0.05")}, ""},
		{"a budget", LevelPod, []Probe{web(budget(5, 5*time.Minute))}, ""},
		{"a budget of nothing", LevelPod, []Probe{web(budget(0, 5*time.Minute))}, "probes[0].budget.percent: want 1 to 99"},
		{"a budget of all", LevelPod, []Probe{web(budget(100, 5*time.Minute))}, "probes[0].budget.percent: want 1 to 99"},
		{"a budget's window of few answers", LevelPod, []Probe{web(budget(5, 99*time.Second))}, "probes[0].budget.window: want at most 24h, and at least ten periods: 1m40s"},
		{"a budget's window of days", LevelPod, []Probe{web(budget(5, 25*time.Hour))}, "probes[0].budget.window: want at most 24h"},
		{"a budget outside During", LevelPod, []Probe{web(func(p *Probe) { budget(5, time.Hour)(p); p.Phases = []ProbePhase{ProbeAfter} })},
			"probes[0].budget: it is for phase During"},
		{"no probes", LevelPod, nil, "probes: has 0 items, want 1 to 10"},
		{"two of a name", LevelPod, []Probe{web(nil), web(nil)}, "probes[1].name: another probe has this name"},
		{"a name with a space", LevelPod, []Probe{web(func(p *Probe) { p.Name = "my web" })}, "probes[0].name: a lowercase RFC 1123 label"},
		{"no handler", LevelPod, []Probe{{Name: "a"}}, "probes[0]: the probe has no check: want exactly one of httpGet"},
		{"two handlers", LevelPod, []Probe{web(func(p *Probe) { p.PodsReady = &PodsReadyProbe{Selector: app} })}, "probes[0]: want exactly one of httpGet"},
		{"an unknown phase", LevelPod, []Probe{web(func(p *Probe) { p.Phases = []ProbePhase{"Later"} })}, "probes[0].phases[0]: supported values"},
		{"a phase twice", LevelPod, []Probe{web(func(p *Probe) { p.Phases = []ProbePhase{ProbeAfter, ProbeAfter} })}, "probes[0].phases[1]: After"},
		{"an unknown scope", LevelPod, []Probe{web(func(p *Probe) { p.Scope = "Twice" })}, "probes[0].scope: supported values"},
		{"an unknown onFailure", LevelPod, []Probe{web(func(p *Probe) { p.OnFailure = "Shout" })}, "probes[0].onFailure: supported values"},
		{"a negative delay", LevelPod, []Probe{web(func(p *Probe) { p.InitialDelaySeconds = -1 })}, "probes[0].initialDelaySeconds: want 0 to 3600"},
		{"a negative period", LevelPod, []Probe{web(func(p *Probe) { p.PeriodSeconds = -1 })}, "probes[0].periodSeconds: want 0 to 3600"},
		{"a time-out of hours", LevelPod, []Probe{web(func(p *Probe) { p.TimeoutSeconds = 3601 })}, "probes[0].timeoutSeconds: want 0 to 3600"},
		{"a threshold too high", LevelPod, []Probe{web(func(p *Probe) { p.FailureThreshold = 3601 })}, "probes[0].failureThreshold: want 0 to 3600"},
		{"per target at level node", LevelNode, []Probe{tcp(ProbePerTarget, "", intstr.FromInt32(80))}, "probes[0].scope: nodes cannot be probed"},
		{"once without a host", LevelPod, []Probe{tcp("", "", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: with scope Once a host is required"},
		{"per target with a host", LevelPod, []Probe{tcp(ProbePerTarget, "a", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: with scope PerTarget the host is each target"},
		{"a host with a port", LevelPod, []Probe{tcp("", "a:80", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: want a name or an address, without scheme and port"},
		{"a host with a scheme", LevelPod, []Probe{tcp("", "http://a", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: want a name or an address"},
		{"the worker itself", LevelPod, []Probe{tcp("", "Localhost", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: it is the worker itself"},
		{"the worker itself by address", LevelPod, []Probe{tcp("", "127.0.0.1", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: it is a loopback address"},
		{"the cloud's metadata", LevelPod, []Probe{tcp("", "169.254.169.254", intstr.FromInt32(80))}, "probes[0].tcpSocket.host: it is a link-local address"},
		{"port 0", LevelPod, []Probe{tcp("", "a", intstr.FromInt32(0))}, "probes[0].tcpSocket.port: want 1 to 65535"},
		{"once with a named port", LevelPod, []Probe{tcp("", "a", http)}, "probes[0].tcpSocket.port: with scope Once there is no container"},
		{"a port's name that none can have", LevelPod, []Probe{tcp(ProbePerTarget, "", intstr.FromString("8080"))}, "probes[0].tcpSocket.port: want a number, or the name"},
		{"grpc without a port", LevelPod, []Probe{{Name: "g", ProbeHandler: ProbeHandler{GRPC: &GRPCProbe{Host: "a"}}}}, "probes[0].grpc.port: want 1 to 65535"},
		{"an unknown scheme", LevelPod, []Probe{web(func(p *Probe) { p.HTTPGet.Scheme = "FTP" })}, "probes[0].httpGet.scheme: supported values"},
		{"a URL as path", LevelPod, []Probe{web(func(p *Probe) { p.HTTPGet.Path = "http://other/x" })}, "probes[0].httpGet.path: want a path such as"},
		{"another server in the path", LevelPod, []Probe{web(func(p *Probe) { p.HTTPGet.Path = "//other/x" })}, "probes[0].httpGet.path: want a path such as"},
		{"a header without a name", LevelPod, []Probe{web(func(p *Probe) { p.HTTPGet.HTTPHeaders = []HTTPHeader{{Value: "a"}} })}, "probes[0].httpGet.httpHeaders[0].name: "},
		{"a header of two lines", LevelPod, []Probe{web(func(p *Probe) { p.HTTPGet.HTTPHeaders = []HTTPHeader{{Name: "a", Value: "b\r\nc: d"}} })}, "probes[0].httpGet.httpHeaders[0].value: want one line"},
		{"exec once", LevelPod, []Probe{exec("", "true")}, "probes[0].exec: a command runs in a target: use scope PerTarget"},
		{"exec of nothing", LevelPod, []Probe{exec(ProbePerTarget)}, "probes[0].exec.command: want a program"},
		{"podsReady of no labels", LevelPod, []Probe{ready("1", nil)}, "probes[0].podsReady.selector: want the labels"},
		{"podsReady of broken labels", LevelPod, []Probe{ready("1", map[string]string{"a b": ""})}, "probes[0].podsReady.selector: "},
		{"podsReady of none", LevelPod, []Probe{ready("0", app)}, "probes[0].podsReady.min: want a number of 1 or more, or 1% to 100%"},
		{"podsReady of more than all", LevelPod, []Probe{ready("101%", app)}, "probes[0].podsReady.min: want a number of 1 or more, or 1% to 100%"},
		{"prometheus per target", LevelPod, []Probe{query(ProbePerTarget, "up", "> 0")}, "probes[0].prometheus: it asks about no single target"},
		{"prometheus without a query", LevelPod, []Probe{query("", "", "> 0")}, "probes[0].prometheus.query: has 0 characters"},
		{"prometheus without a comparison", LevelPod, []Probe{query("", "up", "0.05")}, `probes[0].prometheus.comparison: want <, <=, >, >=, == or != and a number, such as "< 0.05"`},
		{"prometheus each second", LevelPod, []Probe{often(query("", "up", "> 0"), 1)}, "probes[0].periodSeconds: a prometheus probe asks at most once in 10 s"},
		{"prometheus each 10 s", LevelPod, []Probe{often(query("", "up", "> 0"), 10)}, ""},
		{"prometheus with a word", LevelPod, []Probe{query("", "up", "< much")}, `probes[0].prometheus.comparison: much is no number: write one such as "< 0.05"`},
		{"prometheus with no number", LevelPod, []Probe{query("", "up", "< NaN")}, "probes[0].prometheus.comparison: NaN is no number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := ValidateProbes(field.NewPath("probes"), c.level, c.probes)
			if c.want == "" {
				if len(errs) > 0 {
					t.Errorf("ValidateProbes = %v, want nothing", errs.ToAggregate())
				}
				return
			}
			if len(errs) != 1 {
				t.Fatalf("ValidateProbes = %v, want one error", errs)
			}
			if name, text, _ := strings.Cut(c.want, ": "); errs[0].Field != name || !strings.Contains(errs[0].Error(), text) {
				t.Errorf("ValidateProbes = %v, want %q in it", errs[0], c.want)
			}
		})
	}
}

func TestProbeDefaults(t *testing.T) {
	want := Probe{Phases: []ProbePhase{ProbeBefore, ProbeDuring, ProbeAfter}, Scope: ProbeOnce, OnFailure: ProbeAbort,
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
	if diff := cmp.Diff(want, Probe{}.WithDefaults()); diff != "" {
		t.Errorf("WithDefaults (-want +got):\n%s", diff)
	}
	set := Probe{Phases: []ProbePhase{ProbeAfter}, Scope: ProbePerTarget, OnFailure: ProbeRecord, InitialDelaySeconds: 5,
		PeriodSeconds: 1, TimeoutSeconds: 2, SuccessThreshold: 3, FailureThreshold: 4}
	if diff := cmp.Diff(set, set.WithDefaults()); diff != "" {
		t.Errorf("WithDefaults changes what is set (-want +got):\n%s", diff)
	}
}

func TestCompare(t *testing.T) {
	for _, c := range []struct {
		comparison          string
		below, equal, above bool
	}{
		{"< 2", true, false, false}, {"<=2", true, true, false}, {"> 2.0", false, false, true},
		{">= 2", false, true, true}, {" == 2 ", false, true, false}, {"!= 2e0", true, false, true},
	} {
		holds, err := PrometheusProbe{Comparison: c.comparison}.Compare()
		if err != nil {
			t.Errorf("Compare of %q: %v", c.comparison, err)
			continue
		}
		for value, want := range map[float64]bool{1.9: c.below, 2: c.equal, 2.1: c.above} {
			if got := holds(value); got != want {
				t.Errorf("%g %s = %t, want %t", value, c.comparison, got, want)
			}
		}
	}
}

func TestNeverProbed(t *testing.T) {
	for address, never := range map[string]bool{
		"10.0.0.1": false, "192.168.1.1": false, "8.8.8.8": false, "2001:db8::1": false, "fd00::1": false, "169.253.255.255": false,
		"127.0.0.1": true, "127.1.2.3": true, "::1": true, "::ffff:127.0.0.1": true, "0.0.0.0": true, "::": true,
		"169.254.0.0": true, "169.254.255.255": true, "::ffff:169.254.169.254": true, "fe80::1": true, "febf::1": true,
		"224.0.0.1": true, "ff02::1": true, "255.255.255.255": true,
		"fd00:ec2::254": true, "fd00:ec2::255": false, "100.100.100.200": true, "168.63.129.16": true,
		"64:ff9b::a9fe:a9fe": true, "64:ff9b::7f00:1": true, "64:ff9b::808:808": false, "::169.254.169.254": true, "::8.8.8.8": false,
	} {
		if why := NeverProbed(netip.MustParseAddr(address)); (why != "") != never {
			t.Errorf("NeverProbed(%s) = %q, want it refused: %t", address, why, never)
		}
	}
	if NeverProbed(netip.Addr{}) == "" {
		t.Error("no address at all may be probed")
	}
}
