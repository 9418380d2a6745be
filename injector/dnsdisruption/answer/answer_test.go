package answer

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/squall-chaos/squall/api/v1beta1"
)

func host(hostname, kind, value string) v1beta1.DNSHostRecord {
	return v1beta1.DNSHostRecord{Hostname: hostname, Record: v1beta1.DNSRecord{Type: kind, Value: value, TTL: 5}}
}

func mustNew(t testing.TB, search []string, records ...v1beta1.DNSHostRecord) *Answers {
	t.Helper()
	answers, err := New(records, search)
	if err != nil {
		t.Fatal(err)
	}
	return answers
}

func question(t testing.TB, name string, qtype uint16, change ...func(*dns.Msg)) []byte {
	t.Helper()
	asked := new(dns.Msg).SetQuestion(name, qtype)
	asked.Id = 4711
	for _, f := range change {
		f(asked)
	}
	query, err := asked.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return query
}

func read(t testing.TB, message []byte) *dns.Msg {
	t.Helper()
	reply := new(dns.Msg)
	if err := reply.Unpack(message); err != nil {
		t.Fatalf("%x: %v", message, err)
	}
	return reply
}

// replyText is a reply's code and records.
func replyText(reply *dns.Msg) string {
	texts := []string{dns.RcodeToString[reply.Rcode]}
	for _, record := range reply.Answer {
		texts = append(texts, strings.ReplaceAll(record.String(), "\t", " "))
	}
	return strings.Join(texts, "; ")
}

func TestNearestRecordAnswers(t *testing.T) {
	answers := mustNew(t, []string{"Shop.svc.cluster.local.", "svc.cluster.local", ""},
		host("example.com", "A", "192.0.2.1"), host("api.example.com", "A", "192.0.2.2"), host("db", "A", "192.0.2.3"),
		host("example.com", "TXT", "text"), host("db.shop.svc.cluster.local", "TXT", "whole"), host("db", "TXT", "short"))
	for _, test := range []struct {
		name  string
		qtype uint16
		want  string // "" is passed on
	}{
		{"example.com.", dns.TypeA, "NOERROR; example.com. 5 IN A 192.0.2.1"},
		{"eXample.COM.", dns.TypeA, "NOERROR; eXample.COM. 5 IN A 192.0.2.1"},
		{"www.example.com.", dns.TypeA, "NOERROR; www.example.com. 5 IN A 192.0.2.1"},
		{"v1.api.example.com.", dns.TypeA, "NOERROR; v1.api.example.com. 5 IN A 192.0.2.2"},
		{"api.example.com.", dns.TypeTXT, `NOERROR; api.example.com. 5 IN TXT "text"`},
		{"com.", dns.TypeA, ""},
		{".", dns.TypeA, ""},
		{"anexample.com.", dns.TypeA, ""},
		{"example.com.", dns.TypeAAAA, ""},
		{"example.com.", dns.TypeANY, ""},
		{"db.", dns.TypeA, "NOERROR; db. 5 IN A 192.0.2.3"},
		{"db.shop.svc.cluster.local.", dns.TypeA, "NOERROR; db.shop.svc.cluster.local. 5 IN A 192.0.2.3"},
		{"db.shop.svc.cluster.local.", dns.TypeTXT, `NOERROR; db.shop.svc.cluster.local. 5 IN TXT "whole"`},
		{"db.svc.cluster.local.", dns.TypeTXT, `NOERROR; db.svc.cluster.local. 5 IN TXT "short"`},
		{"example.com.shop.svc.cluster.local.", dns.TypeA, "NOERROR; example.com.shop.svc.cluster.local. 5 IN A 192.0.2.1"},
		// A Service of another namespace has the name of a record.
		{"other.db.svc.cluster.local.", dns.TypeA, ""},
		{"db.cluster.local.", dns.TypeA, ""},
	} {
		got := ""
		decision := answers.To(question(t, test.name, test.qtype), true)
		if decision.Verdict == Reply {
			got = replyText(read(t, decision.Message))
		}
		if got != test.want {
			t.Errorf("%s of %s = %q, want %q", dns.TypeToString[test.qtype], test.name, got, test.want)
		}
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	answers := mustNew(t, nil,
		host("old.example", "CNAME", "new.example"), host("new.example", "CNAME", "newest.example"), host("newest.example", "A", "192.0.2.1"),
		host("newest.example", "AAAA", "DROP"),
		host("away.example", "CNAME", "there.test"), host("below.example", "CNAME", "www.below.example"),
		host("ring1.example", "CNAME", "ring2.example"), host("ring2.example", "CNAME", "ring1.example"))
	truth := func(further []byte, name string) []byte {
		asked := read(t, further)
		if asked.Question[0].Name != name {
			t.Errorf("further question is for %s, want %s", asked.Question[0].Name, name)
		}
		reply := new(dns.Msg).SetReply(asked)
		reply.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: []byte{203, 0, 113, 1}}}
		packed, err := reply.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	const cname = ". 5 IN CNAME "
	for name, test := range map[string]struct{ further, want string }{
		"old.example.":   {"", "NOERROR; old.example" + cname + "new.example.; new.example" + cname + "newest.example.; newest.example. 5 IN A 192.0.2.1"},
		"away.example.":  {"there.test.", "NOERROR; away.example" + cname + "there.test.; there.test. 0 IN A 203.0.113.1"},
		"below.example.": {"www.below.example.", "NOERROR; below.example" + cname + "www.below.example.; www.below.example. 0 IN A 203.0.113.1"},
		"ring1.example.": {"ring1.example.", "NOERROR; ring1.example" + cname + "ring2.example.; ring2.example" + cname + "ring1.example.; ring1.example. 0 IN A 203.0.113.1"},
	} {
		decision := answers.To(question(t, name, dns.TypeA), true)
		reply := decision.Message
		if decision.Verdict == Follow {
			reply = decision.Finish(truth(decision.Message, test.further))
		}
		if got := replyText(read(t, reply)); got != test.want || (decision.Verdict == Follow) != (test.further != "") {
			t.Errorf("%s: verdict %d, %s, want %s", name, decision.Verdict, got, test.want)
		}
	}
	if decision := answers.To(question(t, "old.example.", dns.TypeAAAA), true); decision.Verdict != Drop {
		t.Errorf("alias of what is dropped: verdict %d, want Drop", decision.Verdict)
	}
	if got := replyText(read(t, answers.To(question(t, "old.example.", dns.TypeCNAME), true).Message)); got != "NOERROR; old.example"+cname+"new.example." {
		t.Errorf("the alias itself = %s", got)
	}
	for name, answer := range map[string][]byte{"nothing": nil, "a question": question(t, "there.test.", dns.TypeA), "another's": truth(question(t, "there.test.", dns.TypeA, func(m *dns.Msg) { m.Id++ }), "there.test.")} {
		if got := replyText(read(t, answers.To(question(t, "away.example.", dns.TypeA), true).Finish(answer))); !strings.HasPrefix(got, "SERVFAIL") {
			t.Errorf("true answer is %s: %s, want SERVFAIL", name, got)
		}
	}
}

// A reply that does not fit into a datagram is cut and marked; over TCP it is complete.
func TestLongAnswersAreCut(t *testing.T) {
	long := `a\b` + strings.Repeat("x", 1000)
	answers := mustNew(t, nil, host("txt.example", "TXT", long), host("mx.example", "MX", strings.Repeat("1 mail.example.com,", 53)+"2 b.example"))
	edns := func(size uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.SetEdns0(size, false) } }
	for _, test := range []struct {
		name     string
		datagram bool
		change   []func(*dns.Msg)
		most     int
		cut      bool
	}{
		{"txt.example.", true, nil, 512, true},
		{"txt.example.", true, []func(*dns.Msg){edns(100)}, 512, true},
		{"txt.example.", true, []func(*dns.Msg){edns(1232)}, 1232, false},
		{"txt.example.", false, nil, 1200, false},
		{"mx.example.", true, []func(*dns.Msg){edns(600)}, 600, true},
		{"mx.example.", false, nil, 4096, false},
	} {
		qtype := map[bool]uint16{true: dns.TypeTXT, false: dns.TypeMX}[test.name == "txt.example."]
		decision := answers.To(question(t, test.name, qtype, test.change...), test.datagram)
		reply := read(t, decision.Message)
		if len(decision.Message) > test.most || reply.Truncated != test.cut {
			t.Errorf("%+v: %d bytes, cut: %t", test, len(decision.Message), reply.Truncated)
		}
		if text, ok := first(reply).(*dns.TXT); ok && strings.ReplaceAll(strings.Join(text.Txt, ""), `\\`, `\`) != long {
			t.Errorf("text = %q", text.Txt)
		}
		if (reply.IsEdns0() != nil) != (len(test.change) > 0) {
			t.Errorf("%+v: options %v, want some only if asked with some", test, reply.IsEdns0())
		}
	}
}

func first(reply *dns.Msg) dns.RR {
	if len(reply.Answer) == 0 {
		return nil
	}
	return reply.Answer[0]
}

func TestWhatIsNoPlainQuestionIsPassedOn(t *testing.T) {
	answers := mustNew(t, nil, host("example.com", "A", "192.0.2.1"))
	plain := question(t, "example.com.", dns.TypeA)
	for name, query := range map[string][]byte{
		"nothing": nil, "half": plain[:len(plain)/2], "noise": bytes.Repeat([]byte{0xff}, 40),
		"an answer":     question(t, "example.com.", dns.TypeA, func(m *dns.Msg) { m.Response = true }),
		"an update":     question(t, "example.com.", dns.TypeA, func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		"two questions": question(t, "example.com.", dns.TypeA, func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"no question":   question(t, "example.com.", dns.TypeA, func(m *dns.Msg) { m.Question = nil }),
		"another class": question(t, "example.com.", dns.TypeA, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
	} {
		if decision := answers.To(query, true); decision.Verdict != Pass || decision.Message != nil {
			t.Errorf("%s: verdict %d, want Pass", name, decision.Verdict)
		}
	}
	if answers.To(plain, true).Verdict != Reply {
		t.Error("the plain question is not answered")
	}
}

func TestRecordsThatCannotBeAnswered(t *testing.T) {
	for _, test := range []struct{ hostname, kind, value, want string }{
		{"a.example", "NS", "b.example", "want one of the types"},
		{"a.example", "A", "::1", `"::1" is not an IPv4 address`},
		{"a.example", "A", "192.0.2.1,", `"" is not an IPv4 address`},
		{"a.example", "AAAA", "192.0.2.1", `"192.0.2.1" is not an IPv6 address`},
		{"a.example", "AAAA", "::ffff:192.0.2.1", "is not an IPv6 address"},
		{"a.example", "CNAME", "a b", `"a b" is not a name`},
		{"a.example", "CNAME", "a..b", `"a..b" is not a name`},
		{"a.example", "MX", "b.example", `is not "priority host"`},
		{"a.example", "MX", "65536 b.example", `priority "65536": want a number from 0 to 65535`},
		{"a.example", "SRV", "1 2 3", `is not "priority weight port host"`},
		{"a.example", "SRV", "1 2 -3 b", `port "-3"`},
		{"a..example", "A", "192.0.2.1", `"a..example" is not a name`},
		{strings.Repeat("a", 64), "A", "192.0.2.1", "is not a name"},
	} {
		_, err := New([]v1beta1.DNSHostRecord{host(test.hostname, test.kind, test.value)}, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.kind+" of "+test.hostname) {
			t.Errorf("%+v: %v, want it to say %q", test, err, test.want)
		}
	}
}

func TestARecordThatIsThereTwice(t *testing.T) {
	_, err := New([]v1beta1.DNSHostRecord{host("a.example", "A", "DROP"), host("a.example", "AAAA", "DROP"), host("A.example.", "A", "192.0.2.1")}, nil)
	if err == nil || !strings.Contains(err.Error(), "record A of A.example. is there twice") {
		t.Errorf("New() = %v, want it refused by name", err)
	}
}

func TestFailureAnswersQuestionsAlone(t *testing.T) {
	reply := read(t, Failure(question(t, "example.com.", dns.TypeA)))
	if diff := cmp.Diff("SERVFAIL", replyText(reply)); diff != "" || reply.Id != 4711 || !reply.Response {
		t.Errorf("Failure() = %v", reply)
	}
	for _, query := range [][]byte{nil, {1, 2, 3}, Failure(question(t, "example.com.", dns.TypeA))} {
		if got := Failure(query); got != nil {
			t.Errorf("Failure(%x) = %x, want nothing", query, got)
		}
	}
}

// FuzzAnswer decides about arbitrary packets. No packet causes a panic. A reply answers the
// question that arrived, within the size of the asker.
func FuzzAnswer(f *testing.F) {
	answers := mustNew(f, []string{"shop.svc.cluster.local"},
		host("example.com", "A", "192.0.2.1,192.0.2.2"), host("example.com", "AAAA", "RANDOM"), host("gone.example", "A", "NXDOMAIN"),
		host("drop.example", "A", "DROP"), host("alias.example", "CNAME", "away.test"), host("below.example", "CNAME", "a.below.example"),
		host("mx.example", "MX", strings.Repeat("10 m.example,", 60)+"1 n.example"), host("txt.example", "TXT", strings.Repeat(`x\`, 500)),
		host("srv.example", "SRV", "1 2 3 h.example"))
	for _, name := range []string{"example.com.", "GONE.example.", "drop.example.", "alias.example.", "a.below.example.", "mx.example.",
		"txt.example.", "srv.example.", "example.com.shop.svc.cluster.local.", ".", `odd\.name.example.com.`} {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeCNAME, dns.TypeMX, dns.TypeTXT, dns.TypeSRV} {
			f.Add(question(f, name, qtype), true)
			f.Add(question(f, name, qtype, func(m *dns.Msg) { m.SetEdns0(4096, true) }), false)
		}
	}
	f.Add([]byte{}, true)
	f.Add([]byte(strings.Repeat("\xc0\x0c", 300)), true)
	f.Fuzz(func(t *testing.T, query []byte, datagram bool) {
		decision := answers.To(query, datagram)
		switch decision.Verdict {
		case Reply:
			wantReply(t, query, decision.Message, datagram)
		case Follow:
			read(t, decision.Message)
			for _, answer := range [][]byte{nil, query, decision.Message, Failure(decision.Message)} {
				wantReply(t, query, decision.Finish(answer), datagram)
			}
		default:
			if decision.Message != nil {
				t.Errorf("verdict %d with a message", decision.Verdict)
			}
		}
		if failure := Failure(query); failure != nil {
			wantReply(t, query, failure, true)
		}
	})
}

func wantReply(t *testing.T, query, message []byte, datagram bool) {
	t.Helper()
	asked, reply := read(t, query), read(t, message)
	most := dns.MaxMsgSize
	if datagram {
		most = dns.MinMsgSize
		if options := asked.IsEdns0(); options != nil {
			most = max(most, int(options.UDPSize()))
		}
	}
	if reply.Id != asked.Id || !reply.Response || fmt.Sprint(reply.Question[0]) != fmt.Sprint(asked.Question[0]) || len(message) > most {
		t.Errorf("%d bytes, want at most %d: %v\nin answer to %v", len(message), most, reply, asked)
	}
}
