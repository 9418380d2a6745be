//go:build linux

package classifier

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/squall-chaos/squall/test/losstest"
	"github.com/squall-chaos/squall/test/testneeds"
)

const (
	localIPv4, remoteIPv4 = "10.0.0.1", "192.0.2.77"
	localIPv6, remoteIPv6 = "fd00::1", "2001:db8:1:2:3:4:5:77"
)

func TestProgramVerdicts(t *testing.T) {
	testneeds.BeRoot(t)
	to := func(m Match) Rule { m.Direction = Egress; return Rule{m, Effect{Drop: 100}} }
	from := func(m Match) Rule { m.Direction = Ingress; return Rule{m, Effect{Drop: 100}} }
	pass := func(rule Rule) Rule { rule.Drop = 0; return rule }
	udp4 := packet{source: localIPv4, destination: remoteIPv4, protocol: 17, sourcePort: 4000, port: 53}
	tcp4 := packet{source: localIPv4, destination: remoteIPv4, protocol: 6, sourcePort: 4000, port: 443}
	udp6 := packet{source: localIPv6, destination: remoteIPv6, protocol: 17, sourcePort: 4000, port: 53}
	tcp6 := packet{source: localIPv6, destination: remoteIPv6, protocol: 6, sourcePort: 4000, port: 443}
	in4 := packet{source: remoteIPv4, destination: localIPv4, protocol: 6, sourcePort: 4000, port: 80}
	in6 := packet{source: remoteIPv6, destination: localIPv6, protocol: 17, sourcePort: 4000, port: 80}

	for name, test := range map[string]struct {
		rules  []Rule
		packet packet
		want   uint32
	}{
		"no rules: passes":                             {nil, udp4, passes},
		"everything: IPv4 drops":                       {[]Rule{to(Match{})}, udp4, drops},
		"everything: IPv6 drops":                       {[]Rule{to(Match{})}, udp6, drops},
		"everything: ICMP drops":                       {[]Rule{to(Match{})}, udp4.with(func(p *packet) { p.protocol = 1 }), drops},
		"everything: ARP passes":                       {[]Rule{to(Match{})}, packet{etherType: 0x0806}, passes},
		"everything: unknown Ethernet type passes":     {[]Rule{to(Match{})}, packet{etherType: 0x88cc}, passes},
		"rule of the other direction: passes":          {[]Rule{from(Match{})}, udp4, passes},
		"address: drops":                               {[]Rule{to(Match{Remote: prefix("192.0.2.77/32")})}, udp4, drops},
		"address is the sender's: passes":              {[]Rule{to(Match{Remote: prefix("10.0.0.1/32")})}, udp4, passes},
		"neighbouring address: passes":                 {[]Rule{to(Match{Remote: prefix("192.0.2.76/32")})}, udp4, passes},
		"network /24 around the address: drops":        {[]Rule{to(Match{Remote: prefix("192.0.2.0/24")})}, udp4, drops},
		"network /25 without the address: passes":      {[]Rule{to(Match{Remote: prefix("192.0.2.128/25")})}, udp4, passes},
		"network /1 with the address: drops":           {[]Rule{to(Match{Remote: prefix("128.0.0.0/1")})}, udp4, drops},
		"network /1 without the address: passes":       {[]Rule{to(Match{Remote: prefix("0.0.0.0/1")})}, udp4, passes},
		"all of IPv4, packet of IPv4: drops":           {[]Rule{to(Match{Remote: prefix("0.0.0.0/0")})}, udp4, drops},
		"all of IPv4, packet of IPv6: passes":          {[]Rule{to(Match{Remote: prefix("0.0.0.0/0")})}, udp6, passes},
		"all of IPv6, packet of IPv6: drops":           {[]Rule{to(Match{Remote: prefix("::/0")})}, udp6, drops},
		"all of IPv6, packet of IPv4: passes":          {[]Rule{to(Match{Remote: prefix("::/0")})}, udp4, passes},
		"IPv6 address: drops":                          {[]Rule{to(Match{Remote: prefix(remoteIPv6 + "/128")})}, udp6, drops},
		"IPv6 address, other lower half: passes":       {[]Rule{to(Match{Remote: prefix("2001:db8:1:2:3:4:5:78/128")})}, udp6, passes},
		"IPv6 address, other upper half: passes":       {[]Rule{to(Match{Remote: prefix("2001:db8:1:3:3:4:5:77/128")})}, udp6, passes},
		"IPv6 network /48: drops":                      {[]Rule{to(Match{Remote: prefix("2001:db8:1::/48")})}, udp6, drops},
		"IPv6 network /64: drops":                      {[]Rule{to(Match{Remote: prefix("2001:db8:1:2::/64")})}, udp6, drops},
		"IPv6 network /100: drops":                     {[]Rule{to(Match{Remote: prefix("2001:db8:1:2:3:4::/100")})}, udp6, drops},
		"IPv6 network /100 next to it: passes":         {[]Rule{to(Match{Remote: prefix("2001:db8:1:2:3:4:1000::/100")})}, udp6, passes},
		"port: drops":                                  {[]Rule{to(Match{Port: 53})}, udp4, drops},
		"port is the sender's: passes":                 {[]Rule{to(Match{Port: 4000})}, udp4, passes},
		"high port: drops":                             {[]Rule{to(Match{Port: 65535})}, udp4.with(func(p *packet) { p.port = 65535 }), drops},
		"IPv6 port: drops":                             {[]Rule{to(Match{Port: 443})}, tcp6, drops},
		"other IPv6 port: passes":                      {[]Rule{to(Match{Port: 444})}, tcp6, passes},
		"source port: drops":                           {[]Rule{to(Match{SourcePort: 4000})}, tcp4, drops},
		"other source port: passes":                    {[]Rule{to(Match{SourcePort: 443})}, tcp4, passes},
		"protocol tcp, packet udp: passes":             {[]Rule{to(Match{Protocol: TCP})}, udp4, passes},
		"protocol tcp, packet tcp: drops":              {[]Rule{to(Match{Protocol: TCP})}, tcp4, drops},
		"protocol udp, packet udp over IPv6: drops":    {[]Rule{to(Match{Protocol: UDP})}, udp6, drops},
		"protocol udp, packet tcp over IPv6: passes":   {[]Rule{to(Match{Protocol: UDP})}, tcp6, passes},
		"port, packet without ports: passes":           {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.protocol = 132 }), passes},
		"options before the ports: drops by port":      {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.options = 12 }), drops},
		"most options before the ports: drops by port": {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.options = 40 }), drops},
		"options, other port: passes":                  {[]Rule{to(Match{Port: 54})}, udp4.with(func(p *packet) { p.options = 12 }), passes},
		"first fragment: drops by port":                {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.fragment = 0x2000 }), drops},
		"later fragment: no port, passes":              {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.fragment = 0x2010 }), passes},
		"later fragment: drops by address":             {[]Rule{to(Match{Remote: prefix("192.0.2.77/32")})}, udp4.with(func(p *packet) { p.fragment = 0x0010 }), drops},
		"later fragment: drops by protocol":            {[]Rule{to(Match{Protocol: UDP})}, udp4.with(func(p *packet) { p.fragment = 0x0010 }), drops},
		"must not fragment: drops by port":             {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.fragment = 0x4000 }), drops},
		"IPv6 extension headers: drops by port":        {[]Rule{to(Match{Port: 53})}, udp6.with(func(p *packet) { p.extensions = [][]byte{option(0, 0), option(60, 2), option(43, 1)} }), drops},
		"IPv6 extension headers, other port: passes":   {[]Rule{to(Match{Port: 54})}, udp6.with(func(p *packet) { p.extensions = [][]byte{option(0, 0), option(60, 2)} }), passes},
		"IPv6 first fragment: drops by port":           {[]Rule{to(Match{Port: 53})}, udp6.with(func(p *packet) { p.extensions = [][]byte{fragment(1)} }), drops},
		"IPv6 later fragment: no port, passes":         {[]Rule{to(Match{Port: 53})}, udp6.with(func(p *packet) { p.extensions = [][]byte{fragment(8)} }), passes},
		"IPv6 later fragment: drops by address":        {[]Rule{to(Match{Remote: prefix(remoteIPv6 + "/128")})}, udp6.with(func(p *packet) { p.extensions = [][]byte{fragment(8)} }), drops},
		"IPv6 behind too many headers: no port":        {[]Rule{to(Match{Port: 53})}, udp6.with(func(p *packet) { p.extensions = repeat(option(60, 0), maxExtensions+1) }), passes},
		"IPv6 neighbour solicitation: passes":          {[]Rule{to(Match{})}, udp6.with(icmp(135)), passes},
		"IPv6 router solicitation: passes":             {[]Rule{to(Match{})}, udp6.with(icmp(133)), passes},
		"IPv6 redirect: passes":                        {[]Rule{to(Match{})}, udp6.with(icmp(137)), passes},
		"IPv6 listener report behind options: passes":  {[]Rule{to(Match{})}, udp6.with(icmp(143), func(p *packet) { p.extensions = [][]byte{option(0, 0)} }), passes},
		"IPv6 echo request: drops":                     {[]Rule{to(Match{})}, udp6.with(icmp(128)), drops},
		"IPv6 echo reply: drops":                       {[]Rule{to(Match{})}, udp6.with(icmp(129)), drops},
		"IPv6 ICMP type after discovery: drops":        {[]Rule{to(Match{})}, udp6.with(icmp(138)), drops},
		"first match passes: later drop does not win":  {[]Rule{pass(to(Match{Port: 53})), to(Match{})}, udp4, passes},
		"first match drops: later pass does not win":   {[]Rule{to(Match{Port: 53}), pass(to(Match{}))}, udp4, drops},
		"earlier rule does not match: later decides":   {[]Rule{pass(to(Match{Port: 54})), to(Match{})}, udp4, drops},
		"ingress: source address and local port drop":  {[]Rule{from(Match{Remote: prefix("192.0.2.77/32"), Port: 80})}, in4, drops},
		"ingress: destination address does not match":  {[]Rule{from(Match{Remote: prefix("10.0.0.1/32")})}, in4, passes},
		"ingress: remote port does not match":          {[]Rule{from(Match{Port: 4000})}, in4, passes},
		"ingress IPv6: source address and port drop":   {[]Rule{from(Match{Remote: prefix(remoteIPv6 + "/128"), Port: 80})}, in6, drops},
		"ingress IPv6: destination does not match":     {[]Rule{from(Match{Remote: prefix(localIPv6 + "/128")})}, in6, passes},
		"0 percent: passes":                            {[]Rule{pass(to(Match{}))}, udp4, passes},
		"truncated ports: passes by port":              {[]Rule{to(Match{Port: 53})}, udp4.with(func(p *packet) { p.cut = 6 }), passes},
		"truncated ports: drops by address":            {[]Rule{to(Match{Remote: prefix("192.0.2.77/32")})}, udp4.with(func(p *packet) { p.cut = 6 }), drops},
	} {
		t.Run(name, func(t *testing.T) {
			direction := Egress
			if len(test.rules) > 0 && test.packet.source != localIPv4 && test.packet.source != localIPv6 && test.packet.etherType == 0 {
				direction = Ingress
			}
			program := loadForTest(t, direction, test.rules, nil)
			got, _, err := program.Test(test.packet.bytes())
			if err != nil {
				t.Fatal(err)
			}
			if got != test.want {
				t.Errorf("verdict of %+v by %+v = %d, want %d", test.packet, test.rules, int32(got), int32(test.want))
			}
		})
	}
}

func TestProgramDropsItsShare(t *testing.T) {
	testneeds.BeRoot(t)
	const packets = 20000
	for _, share := range []Percent{0, 1, 40, 99, 100} {
		program := loadForTest(t, Egress, []Rule{{Match{Direction: Egress}, Effect{Drop: share}}}, nil)
		data := packet{source: localIPv4, destination: remoteIPv4, protocol: 17, port: 1}.bytes()
		var dropped int
		for range packets {
			verdict, _, err := program.Test(data)
			if err != nil {
				t.Fatal(err)
			}
			if verdict == drops {
				dropped++
			}
		}
		if low, high := losstest.Bounds(packets, int(share)); dropped < low || dropped > high {
			t.Errorf("%d%%: %d of %d dropped, want %d to %d", share, dropped, packets, low, high)
		}
	}
}

// The largest plan has every rule in the longest form, in both families. Its jumps must
// reach, and the verifier must finish.
func TestProgramOfMostRulesLoads(t *testing.T) {
	testneeds.BeRoot(t)
	for name, address := range map[string]func(i int) netip.Prefix{
		"IPv4 networks": func(i int) netip.Prefix {
			return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 4), byte(i << 4)}), 28)
		},
		"IPv6 networks": func(i int) netip.Prefix {
			return netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 13: byte(i >> 8), 14: byte(i)}), 120)
		},
		"any address": func(int) netip.Prefix { return netip.Prefix{} },
		"networks in networks of both families, and any address": func(i int) netip.Prefix {
			switch i % 3 {
			case 0:
				return netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 4), byte(i << 4)}), 1+i%32)
			case 1:
				return netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 1, 6: byte(i), 13: byte(i >> 8), 14: byte(i)}), 1+i%128)
			}
			return netip.Prefix{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var rules []Rule
			for i := range mostRules {
				rules = append(rules, Rule{Match{Direction: Egress, Remote: address(i), Port: uint16(i + 1), SourcePort: 7, Protocol: TCP}, Effect{Drop: 50}})
			}
			last := packet{source: localIPv4, destination: "172.16.127.241", protocol: 17, port: 9}
			rules = append(rules, Rule{Match{Direction: Egress, Protocol: UDP, Port: 9}, Effect{Drop: 100}})
			program := loadForTest(t, Egress, rules, nil)
			if verdict, _, err := program.Test(last.bytes()); err != nil || verdict != drops {
				t.Errorf("verdict of the last of %d rules = %d, %v, want a drop", len(rules), int32(verdict), err)
			}
			last6 := packet{source: localIPv6, destination: remoteIPv6, protocol: 17, port: 9}
			if verdict, _, err := program.Test(last6.bytes()); err != nil || verdict != drops {
				t.Errorf("IPv6 verdict of the last of %d rules = %d, %v, want a drop", len(rules), int32(verdict), err)
			}
		})
	}
}

// mostRules is more than any kind needs; see rule.MaxRules.
const mostRules = 2048

const (
	drops  = uint32(verdictDrop)
	passes = ^uint32(0) // verdictNext
)

func loadForTest(t *testing.T, direction Direction, rules []Rule, cgroups *Cgroups) *ebpf.Program {
	t.Helper()
	return loadSpec(t, Spec{Direction: direction, Rules: rules, Cgroups: cgroups, Owner: 77})
}

func loadSpec(t *testing.T, s Spec) *ebpf.Program {
	t.Helper()
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, Instructions: Program(s), License: "MIT"})
	if err != nil {
		t.Fatalf("load: %+v", err)
	}
	t.Cleanup(func() { program.Close() })
	return program
}

// packet is an Ethernet frame built by hand.
type packet struct {
	etherType           uint16 // 0: by the addresses
	source, destination string
	protocol            byte
	sourcePort, port    uint16
	options             int      // bytes of IPv4 options
	fragment            uint16   // the IPv4 flags and offset
	extensions          [][]byte // IPv6, the first two bytes are set when built
	icmpType            byte
	flags               byte // of TCP; 0: without the rest of its header
	cut                 int  // bytes missing at the end
}

func (p packet) with(changes ...func(*packet)) packet {
	for _, change := range changes {
		change(&p)
	}
	return p
}

func (p packet) bytes() []byte {
	payload := binary.BigEndian.AppendUint16(nil, p.sourcePort)
	payload = binary.BigEndian.AppendUint16(payload, p.port)
	payload = append(payload, 0, 12, 0, 0)
	if p.flags != 0 {
		payload = append(payload, 0, 0, 0, 0, 5<<4, p.flags, 0, 0, 0, 0, 0, 0)
	}
	if p.icmpType != 0 {
		payload = []byte{p.icmpType, 0, 0, 0, 0, 0, 0, 0}
	}
	frame := make([]byte, 14)
	etherType := p.etherType
	switch {
	case etherType != 0:
		frame = append(frame, make([]byte, 28)...)
	case netip.MustParseAddr(p.source).Is4():
		etherType = 0x0800
		frame = append(frame, p.ipv4(payload)...)
	default:
		etherType = 0x86dd
		frame = append(frame, p.ipv6(payload)...)
	}
	binary.BigEndian.PutUint16(frame[12:], etherType)
	return frame[:len(frame)-p.cut]
}

func (p packet) ipv4(payload []byte) []byte {
	source, destination := netip.MustParseAddr(p.source).As4(), netip.MustParseAddr(p.destination).As4()
	header := make([]byte, 20+p.options)
	header[0] = 4<<4 | byte(len(header)/4)
	binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(payload)))
	binary.BigEndian.PutUint16(header[6:], p.fragment)
	header[8], header[9] = 64, p.protocol
	copy(header[12:], source[:])
	copy(header[16:], destination[:])
	for i := 20; i < len(header); i++ {
		header[i] = 1
	}
	return append(header, payload...)
}

func (p packet) ipv6(payload []byte) []byte {
	source, destination := netip.MustParseAddr(p.source).As16(), netip.MustParseAddr(p.destination).As16()
	header := make([]byte, 40)
	header[0], header[7] = 6<<4, 64
	copy(header[8:], source[:])
	copy(header[24:], destination[:])
	next := 6
	for _, extension := range p.extensions {
		header[next] = extension[0]
		next = len(header)
		header = append(header, extension[1:]...)
	}
	header[next] = p.protocol
	binary.BigEndian.PutUint16(header[4:], uint16(len(header)-40+len(payload)))
	return append(header, payload...)
}

// option is an extension header of kind, 8 bytes and more times 8 long. Its
// first byte is the kind, dropped when the packet is built.
func option(kind byte, more int) []byte {
	header := make([]byte, 1+8+8*more)
	header[0], header[2] = kind, byte(more)
	return header
}

// fragment is a fragment header with an offset, in units of 8 bytes, and flags.
func fragment(offsetAndFlags uint16) []byte {
	header := make([]byte, 1+8)
	header[0] = 44
	binary.BigEndian.PutUint16(header[3:], offsetAndFlags)
	return header
}

func icmp(kind byte) func(*packet) {
	return func(p *packet) { p.protocol, p.icmpType = 58, kind }
}

func repeat(header []byte, times int) [][]byte {
	var headers [][]byte
	for range times {
		headers = append(headers, header)
	}
	return headers
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
