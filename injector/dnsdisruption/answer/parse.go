package answer

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// textSize is the longest string of a TXT record, in bytes; a longer text is
// several of them (RFC 1035, 3.3).
const textSize = 255

// parse reads the values of a record.
func parse(host v1beta1.DNSHostRecord) (*record, error) {
	r := &record{DNSRecord: host.Record, qtype: dns.StringToType[host.Record.Type]}
	refuse := func(err error) error {
		return fmt.Errorf("record %s of %s, value %q: %w", host.Record.Type, host.Hostname, host.Record.Value, err)
	}
	read, known := readers[r.qtype]
	if !known {
		return nil, refuse(fmt.Errorf("want one of the types A, AAAA, CNAME, MX, TXT, SRV"))
	}
	if _, ok := dns.IsDomainName(host.Hostname); !ok {
		return nil, refuse(fmt.Errorf("%q is not a name", host.Hostname))
	}
	if r.failure() != "" {
		return r, nil
	}
	values := []string{host.Record.Value}
	if r.qtype != dns.TypeTXT {
		values = strings.Split(host.Record.Value, ",")
	}
	for _, text := range values {
		value, err := read(strings.TrimSpace(text))
		if err != nil {
			return nil, refuse(err)
		}
		r.values = append(r.values, value)
	}
	return r, nil
}

var readers = map[uint16]func(text string) (dns.RR, error){
	dns.TypeA:     readA,
	dns.TypeAAAA:  readAAAA,
	dns.TypeCNAME: readCNAME,
	dns.TypeMX:    readMX,
	dns.TypeTXT:   readTXT,
	dns.TypeSRV:   readSRV,
}

func readA(text string) (dns.RR, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is4() {
		return nil, fmt.Errorf("%q is not an IPv4 address", text)
	}
	return &dns.A{A: address.AsSlice()}, nil
}

func readAAAA(text string) (dns.RR, error) {
	address, err := netip.ParseAddr(text)
	if err != nil || !address.Is6() || address.Is4In6() || address.Zone() != "" {
		return nil, fmt.Errorf("%q is not an IPv6 address", text)
	}
	return &dns.AAAA{AAAA: address.AsSlice()}, nil
}

func readCNAME(text string) (dns.RR, error) {
	target, err := readName(text)
	return &dns.CNAME{Target: target}, err
}

func readMX(text string) (dns.RR, error) {
	numbers, name, err := readNumbers(text, "priority")
	if err != nil {
		return nil, err
	}
	return &dns.MX{Preference: numbers[0], Mx: name}, nil
}

func readSRV(text string) (dns.RR, error) {
	numbers, name, err := readNumbers(text, "priority", "weight", "port")
	if err != nil {
		return nil, err
	}
	return &dns.SRV{Priority: numbers[0], Weight: numbers[1], Port: numbers[2], Target: name}, nil
}

// readTXT cuts the text into strings. The library takes a backslash for the
// beginning of an escape.
func readTXT(text string) (dns.RR, error) {
	record := &dns.TXT{}
	for {
		part := text[:min(textSize, len(text))]
		record.Txt = append(record.Txt, strings.ReplaceAll(part, `\`, `\\`))
		if text = text[len(part):]; text == "" {
			return record, nil
		}
	}
}

// readNumbers reads numbers of 16 bits and a name after them.
func readNumbers(text string, names ...string) ([]uint16, string, error) {
	fields := strings.Fields(text)
	if len(fields) != len(names)+1 {
		return nil, "", fmt.Errorf("%q is not \"%s host\"", text, strings.Join(names, " "))
	}
	var numbers []uint16
	for i, name := range names {
		number, err := strconv.ParseUint(fields[i], 10, 16)
		if err != nil {
			return nil, "", fmt.Errorf("%s %q: want a number from 0 to 65535", name, fields[i])
		}
		numbers = append(numbers, uint16(number))
	}
	name, err := readName(fields[len(names)])
	return numbers, name, err
}

func readName(text string) (string, error) {
	name := dns.Fqdn(text)
	if _, ok := dns.IsDomainName(name); !ok || strings.ContainsAny(text, " \t\r\n\\") || text == "" {
		return "", fmt.Errorf("%q is not a name", text)
	}
	return name, nil
}
