package v1beta1

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DNSDisruption changes the answers to the target's DNS queries. It disrupts the whole
// pod, also if spec.containers names some containers. Pod level only.
type DNSDisruption struct {
	// Records are the changed answers; all other queries get the real answer. Required.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="[self.map(r, r.record.type + ' ' + (r.hostname + '.').replace('..', '.').lowerAscii())].all(names, names.all(a, names.exists_one(b, a == b)))",message="a hostname has one record of each type; join their values with commas",messageExpression="[self.map(r, r.record.type + ' ' + (r.hostname + '.').replace('..', '.').lowerAscii())].map(names, names.filter(a, !names.exists_one(b, a == b))[0])[0] + ': a hostname has one record of each type; join their values with commas'"
	// +listType=atomic
	Records []DNSHostRecord `json:"records"`
	// Port is the port the target's questions go to. 0 means 53.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=65535
	Port int `json:"port,omitempty"`
	// Protocol is udp, tcp or both. Empty means both.
	//
	// +kubebuilder:validation:Enum=udp;tcp;both;""
	Protocol string `json:"protocol,omitempty"`
}

// DNSHostRecord is the false answer for one name and one type.
type DNSHostRecord struct {
	// Hostname is the name of the query, and all names below it without a record of
	// their own. Case and a final dot do not matter. Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches('^[!-)+/-\\[\\]-~-]{1,63}([.][!-)+/-\\[\\]-~-]{1,63})*[.]?$')`,message="want a name such as www.example.com, which stands for all names below it too",messageExpression=`self + ': want a name such as www.example.com, which stands for all names below it too'`
	Hostname string    `json:"hostname"`
	Record   DNSRecord `json:"record"`
}

// DNSRecord is one changed answer.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'A' || self.value in ['NXDOMAIN', 'DROP', 'SERVFAIL', 'RANDOM'] || self.value.split(',').all(v, isIP(v.trim()) && ip(v.trim()).family() == 4)",message="an A record is a list of IPv4 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM",messageExpression=`self.value + ': an A record is a list of IPv4 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM'`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule="self.type != 'AAAA' || self.value in ['NXDOMAIN', 'DROP', 'SERVFAIL', 'RANDOM'] || self.value.split(',').all(v, isIP(v.trim()) && ip(v.trim()).family() == 6)",message="an AAAA record is a list of IPv6 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM",messageExpression=`self.value + ': an AAAA record is a list of IPv6 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM'`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`self.type in ['A', 'AAAA'] || !(self.value in ['NXDOMAIN', 'DROP', 'SERVFAIL', 'RANDOM'])`,message="NXDOMAIN, DROP, SERVFAIL and RANDOM are for records of type A and AAAA only",messageExpression=`self.value + ': NXDOMAIN, DROP, SERVFAIL and RANDOM are for records of type A and AAAA only'`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`self.type != 'CNAME' || self.value.matches('^\\s*[!-+/-\\[\\]-~-]{1,63}([.][!-+/-\\[\\]-~-]{1,63})*[.]?\\s*$') && self.value.trim().size() <= 253`,message="a CNAME record is one name",messageExpression=`self.value + ': a CNAME record is one name'`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`self.type != 'MX' || self.value.matches('^\\s*0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})\\s+([.]|[!-+/-\\[\\]-~-]{1,63}([.][!-+/-\\[\\]-~-]{1,63})*[.]?)\\s*(,\\s*0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})\\s+([.]|[!-+/-\\[\\]-~-]{1,63}([.][!-+/-\\[\\]-~-]{1,63})*[.]?)\\s*)*$') && self.value.split(',').all(v, v.trim().size() <= 255)`,message="an MX record is a list of \"priority host\" separated by commas",messageExpression=`self.value + ': an MX record is a list of "priority host" separated by commas'`,fieldPath=".value"
// +kubebuilder:validation:XValidation:rule=`self.type != 'SRV' || self.value.matches('^\\s*(0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})\\s+){3}([.]|[!-+/-\\[\\]-~-]{1,63}([.][!-+/-\\[\\]-~-]{1,63})*[.]?)\\s*(,\\s*(0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})\\s+){3}([.]|[!-+/-\\[\\]-~-]{1,63}([.][!-+/-\\[\\]-~-]{1,63})*[.]?)\\s*)*$') && self.value.split(',').all(v, v.trim().size() <= 259)`,message="an SRV record is a list of \"priority weight port host\" separated by commas",messageExpression=`self.value + ': an SRV record is a list of "priority weight port host" separated by commas'`,fieldPath=".value"
type DNSRecord struct {
	// Type is A, AAAA, CNAME, MX, TXT or SRV. Required.
	//
	// +kubebuilder:validation:Enum=A;AAAA;CNAME;MX;TXT;SRV
	Type string `json:"type"`
	// Value is the answer: addresses separated by commas (A, AAAA), a name (CNAME), a text
	// (TXT), "10 mail.example.com" (MX) or "10 60 8080 host.example.com" (SRV). Addresses
	// are used in turn. A and AAAA also take NXDOMAIN (no such name), DROP (no answer at
	// all), SERVFAIL and RANDOM (any address). Required.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`
	// TTL is how long the answer may be cached, in seconds. 0, the default,
	// means not at all.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TTL int `json:"ttl,omitempty"`
}

// dnsName is a name in an answer, which may begin with a star; dnsNumber is a number
// of 16 bits.
const (
	dnsName   = `[!-+/-\[\]-~-]{1,63}([.][!-+/-\[\]-~-]{1,63})*[.]?`
	dnsNumber = `0*(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[0-5]?[0-9]{1,4})`
)

var (
	dnsFailures = []string{"NXDOMAIN", "DROP", "SERVFAIL", "RANDOM"}
	// One or more labels of up to 63 characters (RFC 1035, 2.3.4), in ASCII: other
	// characters have other bytes in a question, and a backslash begins an escape.
	dnsHostname = regexp.MustCompile(`^[!-)+/-\[\]-~-]{1,63}([.][!-)+/-\[\]-~-]{1,63})*[.]?$`)
	dnsCNAME    = regexp.MustCompile(`^\s*` + dnsName + `\s*$`)
	dnsMX       = regexp.MustCompile(`^\s*` + dnsNumber + `\s+([.]|` + dnsName + `)\s*$`)
	dnsSRV      = regexp.MustCompile(`^\s*(` + dnsNumber + `\s+){3}([.]|` + dnsName + `)\s*$`)
)

func (d *DNSDisruption) validate(path *field.Path) field.ErrorList {
	errs := items(path.Child("records"), len(d.Records), 1, 128)
	errs = append(errs, within(path.Child("port"), d.Port, 0, 65535)...)
	errs = append(errs, oneOf(path.Child("protocol"), d.Protocol, "", "udp", "tcp", "both")...)
	seen := map[[2]string]bool{}
	for i, r := range d.Records {
		at := path.Child("records").Index(i)
		key := [2]string{strings.ToLower(strings.TrimSuffix(r.Hostname, ".")), r.Record.Type}
		if seen[key] {
			errs = append(errs, field.Invalid(at, r.Hostname,
				"a hostname has one record of each type; join their values with commas"))
		}
		seen[key] = true
		errs = append(errs, length(at.Child("hostname"), r.Hostname, 1, 253)...)
		if r.Hostname != "" && !dnsHostname.MatchString(r.Hostname) {
			errs = append(errs, field.Invalid(at.Child("hostname"), r.Hostname,
				"want a name such as www.example.com, which stands for all names below it too"))
		}
		errs = append(errs, r.Record.validate(at.Child("record"))...)
	}
	return errs
}

func (r DNSRecord) validate(path *field.Path) field.ErrorList {
	errs := oneOf(path.Child("type"), r.Type, "A", "AAAA", "CNAME", "MX", "TXT", "SRV")
	errs = append(errs, length(path.Child("value"), r.Value, 1, 1024)...)
	errs = append(errs, within(path.Child("ttl"), r.TTL, 0, 2147483647)...)
	if problem := r.problem(); problem != "" && r.Value != "" {
		errs = append(errs, field.Invalid(path.Child("value"), r.Value, problem))
	}
	return errs
}

// problem is what is wrong with the value for its type, or nothing.
func (r DNSRecord) problem() string {
	failure := slices.Contains(dnsFailures, r.Value)
	every := func(good func(string) bool) bool {
		return !slices.ContainsFunc(strings.Split(r.Value, ","), func(v string) bool { return !good(v) })
	}
	switch {
	case r.Type == "A" && !failure && !every(isIPv4):
		return "an A record is a list of IPv4 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM"
	case r.Type == "AAAA" && !failure && !every(isIPv6):
		return "an AAAA record is a list of IPv6 addresses separated by commas, or one of NXDOMAIN, DROP, SERVFAIL, RANDOM"
	case failure && r.Type != "A" && r.Type != "AAAA":
		return "NXDOMAIN, DROP, SERVFAIL and RANDOM are for records of type A and AAAA only"
	case r.Type == "CNAME" && !shaped(dnsCNAME, 253)(r.Value):
		return "a CNAME record is one name"
	case r.Type == "MX" && !every(shaped(dnsMX, 255)):
		return "an MX record is a list of \"priority host\" separated by commas"
	case r.Type == "SRV" && !every(shaped(dnsSRV, 259)):
		return "an SRV record is a list of \"priority weight port host\" separated by commas"
	}
	return ""
}

// shaped is true of a text of this shape and of at most so many characters. With the
// shortest numbers before it, a name has at most 253.
func shaped(shape *regexp.Regexp, most int) func(string) bool {
	return func(text string) bool { return shape.MatchString(text) && len(strings.TrimSpace(text)) <= most }
}

func isIPv4(text string) bool {
	address, err := netip.ParseAddr(strings.TrimSpace(text))
	return err == nil && address.Is4()
}

// isIPv6 refuses what Kubernetes refuses: zones, and IPv4 addresses in IPv6 notation.
func isIPv6(text string) bool {
	address, err := netip.ParseAddr(strings.TrimSpace(text))
	return err == nil && address.Is6() && !address.Is4In6() && address.Zone() == ""
}
