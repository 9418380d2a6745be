// Package cloud finds the addresses of cloud providers' services in the documents that
// the providers publish. It reads these from a ConfigMap that an operator filled or, if
// the operator allows it, from the providers.
package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Providers, by their fields in network.cloud, which are also their keys in the
// ConfigMap.
const (
	AWS     = "aws"
	GCP     = "gcp"
	Datadog = "datadog"
)

// Ranges are the addresses of a provider's services, by the service's name.
type Ranges map[string][]netip.Prefix

// parsers read each provider's own format.
var parsers = map[string]func([]byte) (Ranges, error){AWS: parseAWS, GCP: parseGCP, Datadog: parseDatadog}

// Parse reads the document of a provider. The error describes what is wrong with it.
func Parse(provider string, document []byte) (Ranges, error) {
	parse, known := parsers[provider]
	if !known {
		return nil, fmt.Errorf("no provider %q", provider)
	}
	ranges, err := parse(document)
	if err != nil {
		return nil, err
	}
	if len(ranges) == 0 {
		return nil, errors.New("it names no range")
	}
	return ranges, nil
}

// add adds a range; an empty text adds none.
func (r Ranges) add(service, text string) error {
	if text == "" {
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("range %q of %s: want an address and the length of its prefix, such as 192.0.2.0/24", text, service)
	}
	if prefix.Addr().Is4In6() {
		return fmt.Errorf("range %q of %s: an address of IPv4 is written as such", text, service)
	}
	if prefix.Bits() == 0 {
		return fmt.Errorf("range %q of %s: that is every address", text, service)
	}
	if service == "" {
		return fmt.Errorf("range %q has no service", text)
	}
	r[service] = append(r[service], prefix.Masked())
	return nil
}

// parseAWS reads ip-ranges.json of Amazon Web Services.
func parseAWS(document []byte) (Ranges, error) {
	var published struct {
		Prefixes []struct {
			Range   string `json:"ip_prefix"`
			Service string `json:"service"`
		} `json:"prefixes"`
		IPv6 []struct {
			Range   string `json:"ipv6_prefix"`
			Service string `json:"service"`
		} `json:"ipv6_prefixes"`
	}
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, fmt.Errorf("want AWS's ip-ranges.json: %w", err)
	}
	ranges := Ranges{}
	var errs []error
	for _, p := range published.Prefixes {
		errs = append(errs, ranges.add(p.Service, p.Range))
	}
	for _, p := range published.IPv6 {
		errs = append(errs, ranges.add(p.Service, p.Range))
	}
	return ranges, first(errs)
}

// unnamed is the service of ranges in goog.json, which names none.
const unnamed = "Google"

// parseGCP reads cloud.json or goog.json of Google.
func parseGCP(document []byte) (Ranges, error) {
	var published struct {
		Prefixes []struct {
			IPv4    string `json:"ipv4Prefix"`
			IPv6    string `json:"ipv6Prefix"`
			Service string `json:"service"`
		} `json:"prefixes"`
	}
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, fmt.Errorf("want Google's cloud.json or goog.json: %w", err)
	}
	ranges := Ranges{}
	var errs []error
	for _, p := range published.Prefixes {
		service := p.Service
		if service == "" {
			service = unnamed
		}
		errs = append(errs, ranges.add(service, p.IPv4), ranges.add(service, p.IPv6))
	}
	return ranges, first(errs)
}

// parseDatadog reads the answer of ip-ranges.datadoghq.com: beside its version an
// object for each service.
func parseDatadog(document []byte) (Ranges, error) {
	var published map[string]json.RawMessage
	if err := json.Unmarshal(document, &published); err != nil {
		return nil, fmt.Errorf("want Datadog's ranges: %w", err)
	}
	ranges := Ranges{}
	var errs []error
	for service, raw := range published {
		if !strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
			continue // version and modified
		}
		var some struct {
			IPv4 []string `json:"prefixes_ipv4"`
			IPv6 []string `json:"prefixes_ipv6"`
		}
		if err := json.Unmarshal(raw, &some); err != nil {
			return nil, fmt.Errorf("want Datadog's ranges: %s: %w", service, err)
		}
		for _, text := range append(some.IPv4, some.IPv6...) {
			errs = append(errs, ranges.add(service, text))
		}
	}
	return ranges, first(errs)
}

// first returns the first error: a wrong document often has thousands.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
