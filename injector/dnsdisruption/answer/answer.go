// Package answer decides about a DNS question: which record answers it falsely, and how, or
// that no record matches. It promises to use neither network nor clock. Everything except a
// well-formed question for one of the records is passed on unchanged.
package answer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/squall-chaos/squall/api/v1beta1"
)

// Verdict is the decision about a question.
type Verdict int

// The verdicts.
const (
	// Pass sends the question to its true server.
	Pass Verdict = iota
	// Drop leaves the question without an answer.
	Drop
	// Reply answers with the message.
	Reply
	// Follow sends another question, the message, to the true server, and answers with the
	// result of Finish.
	Follow
)

// Decision is a verdict with the data to carry it out.
type Decision struct {
	Verdict Verdict
	Message []byte
	Finish  func(answer []byte) []byte
}

// plainSize is the longest answer by UDP to a question that names no other size,
// in bytes (RFC 1035, 2.3.4).
const plainSize = dns.MinMsgSize

// Answers are the false answers of one disruption. Several goroutines may use them at once.
type Answers struct {
	records map[key]*record
	// search are the target's search domains, in lower case and without dots at
	// their ends.
	search []string
}

// key is the name and type of a question, the name in lower case and without the last dot.
type key struct {
	name  string
	qtype uint16
}

// record is one false answer.
type record struct {
	v1beta1.DNSRecord
	qtype uint16
	// values are the answers, their names and TTL apart.
	values []dns.RR
	turn   atomic.Uint32
}

// New reads the records of a disruption, for a target that has these search
// domains. The error names the record that cannot be answered.
func New(records []v1beta1.DNSHostRecord, search []string) (*Answers, error) {
	a := &Answers{records: map[key]*record{}}
	for _, domain := range search {
		if domain = plain(domain); domain != "" {
			a.search = append(a.search, domain)
		}
	}
	for _, host := range records {
		read, err := parse(host)
		if err != nil {
			return nil, err
		}
		asked := key{plain(host.Hostname), read.qtype}
		if a.records[asked] != nil {
			return nil, fmt.Errorf("record %s of %s is there twice; join the values with commas", host.Record.Type, host.Hostname)
		}
		a.records[asked] = read
	}
	return a, nil
}

// To decides about a question as it arrived over the network. datagram is true for UDP,
// where an answer must fit into the asker's size.
func (a *Answers) To(query []byte, datagram bool) Decision {
	asked := new(dns.Msg)
	if asked.Unpack(query) != nil || asked.Response || asked.Opcode != dns.OpcodeQuery || len(asked.Question) != 1 {
		return Decision{}
	}
	question := asked.Question[0]
	found := a.find(plain(question.Name), question.Qtype)
	if question.Qclass != dns.ClassINET || found == nil {
		return Decision{}
	}
	r := replier{asked: asked, size: dns.MaxMsgSize}
	if datagram {
		r.size = plainSize
		if options := asked.IsEdns0(); options != nil {
			r.size = max(plainSize, int(options.UDPSize()))
		}
	}
	if found.qtype == dns.TypeCNAME && question.Qtype != dns.TypeCNAME {
		return a.follow(found, r)
	}
	return r.decide(found, nil)
}

// follow goes from alias to alias. A stub resolver does not do that: it expects the server
// to look up the alias. Each alias counts once, so that an alias for a name below its own,
// or a circle, ends.
func (a *Answers) follow(found *record, r replier) Decision {
	question := r.asked.Question[0]
	name := question.Name
	var aliases []dns.RR
	used := map[*record]bool{}
	for found != nil && found.qtype == dns.TypeCNAME && !used[found] {
		used[found] = true
		aliases = append(aliases, found.under(name, found.values[0]))
		name = found.values[0].(*dns.CNAME).Target
		found = a.find(plain(name), question.Qtype)
	}
	if found != nil && !used[found] {
		return r.decide(found, aliases)
	}
	further := r.asked.Copy()
	further.Question[0].Name = name
	message, err := further.Pack()
	if err != nil {
		return Decision{}
	}
	return Decision{Follow, message, func(answer []byte) []byte { return r.finish(aliases, answer) }}
}

// find returns the record of a name. It tries the name itself, then the name without a
// search domain that the target's resolver added, then the nearest domain above it.
func (a *Answers) find(name string, qtype uint16) *record {
	if found := a.of(name, qtype); found != nil {
		return found
	}
	for _, domain := range a.search {
		if short, cut := strings.CutSuffix(name, "."+domain); cut {
			if found := a.of(short, qtype); found != nil {
				return found
			}
		}
	}
	for {
		_, above, cut := strings.Cut(name, ".")
		if !cut {
			return nil
		}
		if found := a.of(above, qtype); found != nil {
			return found
		}
		name = above
	}
}

// of returns the record of exactly this name. An alias answers questions for addresses as
// well (RFC 1034, 3.6.2).
func (a *Answers) of(name string, qtype uint16) *record {
	if found := a.records[key{name, qtype}]; found != nil {
		return found
	}
	if qtype == dns.TypeA || qtype == dns.TypeAAAA {
		return a.records[key{name, dns.TypeCNAME}]
	}
	return nil
}

// answer returns all values, or for addresses one value in turn.
func (r *record) answer(name string) []dns.RR {
	values := r.values
	if r.qtype == dns.TypeA || r.qtype == dns.TypeAAAA {
		at := int(r.turn.Add(1)-1) % len(values)
		values = values[at : at+1]
	}
	answer := make([]dns.RR, len(values))
	for i, value := range values {
		answer[i] = r.under(name, value)
	}
	return answer
}

// under returns a value as the answer for a name, spelled as in the question.
func (r *record) under(name string, value dns.RR) dns.RR {
	value = dns.Copy(value)
	*value.Header() = dns.RR_Header{Name: name, Rrtype: r.qtype, Class: dns.ClassINET, Ttl: uint32(r.TTL)}
	return value
}

// failure returns the word that replaces addresses, or "".
func (r *record) failure() string {
	if r.qtype != dns.TypeA && r.qtype != dns.TypeAAAA {
		return ""
	}
	switch word := strings.ToUpper(strings.TrimSpace(r.Value)); word {
	case "NXDOMAIN", "DROP", "SERVFAIL", "RANDOM":
		return word
	}
	return ""
}

// anyAddress returns a documentation address that leads nowhere: of 192.0.2.0/24 (RFC 5737)
// or 2001:db8::/32 (RFC 3849).
func anyAddress(qtype uint16) dns.RR {
	if qtype == dns.TypeA {
		return &dns.A{A: netip.AddrFrom4([4]byte{192, 0, 2, byte(rand.UintN(256))}).AsSlice()}
	}
	address := [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8}
	for i := 4; i < len(address); i++ {
		address[i] = byte(rand.UintN(256))
	}
	return &dns.AAAA{AAAA: netip.AddrFrom16(address).AsSlice()}
}

// plain returns a name in lower case without the last dot.
func plain(name string) string {
	return strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), "."))
}
