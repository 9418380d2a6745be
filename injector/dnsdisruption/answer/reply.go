package answer

import "github.com/miekg/dns"

// replier makes replies to one question.
type replier struct {
	asked *dns.Msg
	// size is the longest reply that the asker accepts, in bytes.
	size int
}

// decide answers by a record, for the last of the aliases that led there.
func (r replier) decide(found *record, aliases []dns.RR) Decision {
	reply := r.new()
	name := r.asked.Question[0].Name
	if len(aliases) > 0 {
		name = aliases[len(aliases)-1].(*dns.CNAME).Target
	}
	reply.Answer = aliases
	switch found.failure() {
	case "DROP":
		return Decision{Verdict: Drop}
	case "NXDOMAIN":
		reply.Rcode = dns.RcodeNameError
	case "SERVFAIL":
		reply.Rcode = dns.RcodeServerFailure
	case "RANDOM":
		reply.Answer = append(reply.Answer, found.under(name, anyAddress(found.qtype)))
	default:
		reply.Answer = append(reply.Answer, found.answer(name)...)
	}
	message := r.pack(reply)
	if message == nil { // New has checked all records, so such a reply cannot occur
		return Decision{}
	}
	return Decision{Verdict: Reply, Message: message}
}

// finish answers with aliases, and with the true answer for their destination. It returns
// nil when there is no answer.
func (r replier) finish(aliases []dns.RR, answer []byte) []byte {
	reply, truth := r.new(), new(dns.Msg)
	reply.Answer = aliases
	if truth.Unpack(answer) != nil || !truth.Response || truth.Id != r.asked.Id {
		reply.Rcode = dns.RcodeServerFailure
		return r.pack(reply)
	}
	// Codes above 15 stand in the options, which are ours.
	reply.Rcode = truth.Rcode & 0xf
	reply.Answer = append(reply.Answer, truth.Answer...)
	reply.Ns = truth.Ns
	reply.Truncated = truth.Truncated
	return r.pack(reply)
}

func (r replier) new() *dns.Msg {
	reply := new(dns.Msg).SetReply(r.asked)
	reply.RecursionAvailable = true
	if options := r.asked.IsEdns0(); options != nil {
		reply.SetEdns0(max(plainSize, options.UDPSize()), options.Do())
	}
	return reply
}

func (r replier) pack(reply *dns.Msg) []byte {
	cut := reply.Truncated
	reply.Truncate(r.size)
	reply.Truncated = reply.Truncated || cut
	message, err := reply.Pack()
	if err != nil {
		return nil
	}
	return message
}

// Failure returns the reply of a failed server to a question; nil if query is none.
func Failure(query []byte) []byte {
	asked := new(dns.Msg)
	if asked.Unpack(query) != nil || asked.Response || len(asked.Question) == 0 {
		return nil
	}
	r := replier{asked: asked, size: plainSize}
	reply := r.new()
	reply.Rcode = dns.RcodeServerFailure
	return r.pack(reply)
}
