package v1beta1

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const mostProbes = 10

// ValidateProbes returns everything that is wrong with the probes of a disruption of this
// level, each with a hint.
func ValidateProbes(path *field.Path, level Level, probes []Probe) field.ErrorList {
	errs := items(path, len(probes), 1, mostProbes)
	seen := map[string]bool{}
	for i, probe := range probes {
		at := path.Index(i)
		if seen[probe.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), probe.Name, "another probe has this name: give each its own"))
		}
		seen[probe.Name] = true
		for _, problem := range validation.IsDNS1123Label(probe.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), probe.Name, problem))
		}
		errs = append(errs, probe.validate(at, level)...)
	}
	return errs
}

func (p Probe) validate(path *field.Path, level Level) field.ErrorList {
	var errs field.ErrorList
	var phases []string
	for i, phase := range p.Phases {
		errs = append(errs, oneOf(path.Child("phases").Index(i), string(phase), string(ProbeBefore), string(ProbeDuring), string(ProbeAfter))...)
		phases = append(phases, string(phase))
	}
	errs = append(errs, unique(path.Child("phases"), phases)...)
	errs = append(errs, oneOf(path.Child("scope"), string(p.Scope), "", string(ProbeOnce), string(ProbePerTarget))...)
	errs = append(errs, oneOf(path.Child("onFailure"), string(p.OnFailure), "", string(ProbeAbort), string(ProbeRecord))...)
	if p.perTarget() && level == LevelNode {
		errs = append(errs, field.Invalid(path.Child("scope"), p.Scope, "nodes cannot be probed: use scope Once, or level pod"))
	}
	for _, number := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds}, {"periodSeconds", p.PeriodSeconds}, {"timeoutSeconds", p.TimeoutSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold},
	} {
		errs = append(errs, within(path.Child(number.name), int(number.value), 0, 3600)...)
	}
	if p.Prometheus != nil && p.PeriodSeconds > 0 && p.PeriodSeconds < 10 {
		errs = append(errs, field.Invalid(path.Child("periodSeconds"), p.PeriodSeconds, "a prometheus probe asks at most once in 10 s: set 10 or more"))
	}
	errs = append(errs, p.validateBudget(path.Child("budget"))...)
	return append(errs, p.validateHandler(path)...)
}

func (p Probe) validateBudget(path *field.Path) field.ErrorList {
	if p.Budget == nil {
		return nil
	}
	p = p.WithDefaults()
	errs := within(path.Child("percent"), int(p.Budget.Percent), 1, 99)
	if window := p.Budget.Window.Duration; window > 24*time.Hour || window < 10*p.Period() {
		errs = append(errs, field.Invalid(path.Child("window"), window.String(),
			fmt.Sprintf("want at most 24h, and at least ten periods: %s", 10*p.Period())))
	}
	if !slices.Contains(p.Phases, ProbeDuring) {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "it is for phase During, in which this probe does not ask: remove it, or add the phase"))
	}
	return errs
}

func (p Probe) perTarget() bool { return p.Scope == ProbePerTarget }

func (p Probe) validateHandler(path *field.Path) field.ErrorList {
	var set []string
	var errs field.ErrorList
	add := func(name string, problems func(*field.Path) field.ErrorList) {
		set = append(set, name)
		errs = append(errs, problems(path.Child(name))...)
	}
	if p.HTTPGet != nil {
		add("httpGet", p.validateHTTPGet)
	}
	if p.TCPSocket != nil {
		add("tcpSocket", func(at *field.Path) field.ErrorList {
			return append(p.validateHost(at, p.TCPSocket.Host), p.validatePort(at, p.TCPSocket.Port)...)
		})
	}
	if p.GRPC != nil {
		add("grpc", func(at *field.Path) field.ErrorList {
			return append(p.validateHost(at, p.GRPC.Host), append(within(at.Child("port"), int(p.GRPC.Port), 1, 65535),
				length(at.Child("service"), p.GRPC.Service, 0, 1024)...)...)
		})
	}
	if p.Exec != nil {
		add("exec", p.validateExec)
	}
	if p.PodsReady != nil {
		add("podsReady", p.validatePodsReady)
	}
	if p.Prometheus != nil {
		add("prometheus", p.validatePrometheus)
	}
	const want = "want exactly one of httpGet, tcpSocket, grpc, exec, podsReady, prometheus"
	switch len(set) {
	case 0:
		return field.ErrorList{field.Required(path, "the probe has no check: "+want)}
	case 1:
		return errs
	}
	return append(errs, field.Invalid(path, strings.Join(set, ", "), want))
}

func (p Probe) validateHTTPGet(path *field.Path) field.ErrorList {
	h := p.HTTPGet
	errs := oneOf(path.Child("scheme"), h.Scheme, "", "HTTP", "HTTPS")
	errs = append(errs, p.validateHost(path, h.Host)...)
	errs = append(errs, p.validatePort(path, h.Port)...)
	errs = append(errs, length(path.Child("path"), h.Path, 0, 2048)...)
	if u, err := url.Parse(h.Path); err != nil || u.Host != "" || u.Scheme != "" {
		errs = append(errs, field.Invalid(path.Child("path"), h.Path, "want a path such as /healthz?deep=1; the server goes into host and port"))
	}
	errs = append(errs, items(path.Child("httpHeaders"), len(h.HTTPHeaders), 0, 32)...)
	for i, header := range h.HTTPHeaders {
		at := path.Child("httpHeaders").Index(i)
		for _, problem := range validation.IsHTTPHeaderName(header.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), header.Name, problem))
		}
		errs = append(errs, length(at.Child("name"), header.Name, 0, 256)...)
		errs = append(errs, length(at.Child("value"), header.Value, 0, 1024)...)
		if strings.ContainsFunc(header.Value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			errs = append(errs, field.Invalid(at.Child("value"), header.Value, "want one line without control characters"))
		}
	}
	return errs
}

func (p Probe) validateHost(path *field.Path, host string) field.ErrorList {
	path = path.Child("host")
	if p.perTarget() {
		if host != "" {
			return field.ErrorList{field.Invalid(path, host, "with scope PerTarget the host is each target: remove it, or use scope Once")}
		}
		return nil
	}
	if host == "" {
		return field.ErrorList{field.Required(path, "with scope Once a host is required: a Service such as checkout.shop.svc, or use scope PerTarget")}
	}
	if address, err := netip.ParseAddr(host); err == nil {
		if why := NeverProbed(address); why != "" {
			return field.ErrorList{field.Invalid(path, host, why+": no probe may ask there")}
		}
		return nil
	}
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return field.ErrorList{field.Invalid(path, host, "it is the worker itself: no probe may ask there")}
	}
	if problems := validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(host, "."))); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, host, "want a name or an address, without scheme and port")}
	}
	return nil
}

func (p Probe) validatePort(path *field.Path, port intstr.IntOrString) field.ErrorList {
	path = path.Child("port")
	if port.Type == intstr.Int {
		return within(path, int(port.IntVal), 1, 65535)
	}
	if !p.perTarget() {
		return field.ErrorList{field.Invalid(path, port.StrVal, "with scope Once there is no container that could have a port of this name: want a number")}
	}
	if problems := validation.IsValidPortName(port.StrVal); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, port.StrVal, "want a number, or the name of a container's port: "+strings.Join(problems, ", "))}
	}
	return nil
}

func (p Probe) validateExec(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !p.perTarget() {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "a command runs in a target: use scope PerTarget"))
	}
	if len(p.Exec.Command) == 0 || p.Exec.Command[0] == "" {
		errs = append(errs, field.Required(path.Child("command"), "want a program and its arguments"))
	}
	for i, word := range p.Exec.Command {
		errs = append(errs, length(path.Child("command").Index(i), word, 0, 4096)...)
	}
	return append(errs, items(path.Child("command"), len(p.Exec.Command), 0, 64)...)
}

func (p Probe) validatePodsReady(path *field.Path) field.ErrorList {
	errs := p.wantOnce(path)
	if len(p.PodsReady.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), "want the labels of the pods that should be ready"))
	}
	if _, err := labels.ValidatedSelectorFromSet(p.PodsReady.Selector); err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), p.PodsReady.Selector, err.Error()))
	}
	if p.PodsReady.Enough(1) < 0 {
		errs = append(errs, field.Invalid(path.Child("min"), p.PodsReady.Min.String(), "want a number of 1 or more, or 1% to 100%"))
	}
	return errs
}

func (p Probe) validatePrometheus(path *field.Path) field.ErrorList {
	errs := p.wantOnce(path)
	errs = append(errs, length(path.Child("query"), p.Prometheus.Query, 1, 2048)...)
	errs = append(errs, length(path.Child("comparison"), p.Prometheus.Comparison, 0, 64)...)
	if _, err := p.Prometheus.Compare(); err != nil {
		errs = append(errs, field.Invalid(path.Child("comparison"), p.Prometheus.Comparison, err.Error()))
	}
	return errs
}

func (p Probe) wantOnce(path *field.Path) field.ErrorList {
	if p.perTarget() {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, "it asks about no single target: use scope Once")}
	}
	return nil
}

var comparison = regexp.MustCompile(`^\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*$`)

// Compare is the comparison as a function of the query's value. The error has a hint.
func (p PrometheusProbe) Compare() (func(value float64) bool, error) {
	parts := comparison.FindStringSubmatch(p.Comparison)
	if parts == nil {
		return nil, fmt.Errorf("want <, <=, >, >=, == or != and a number, such as \"< 0.05\"")
	}
	want, err := strconv.ParseFloat(parts[2], 64)
	if err != nil || want != want {
		return nil, fmt.Errorf("%s is no number: write one such as \"%s 0.05\"", parts[2], parts[1])
	}
	return func(value float64) bool {
		switch {
		case value < want:
			return slices.Contains([]string{"<", "<=", "!="}, parts[1])
		case value > want:
			return slices.Contains([]string{">", ">=", "!="}, parts[1])
		}
		return slices.Contains([]string{"<=", ">=", "=="}, parts[1])
	}, nil
}
