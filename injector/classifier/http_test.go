//go:build linux

package classifier

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/squall-chaos/squall/test/testneeds"
)

// isRequest is the program's decision in Go.
func isRequest(r Request, payload string) bool {
	methods := r.Methods
	if len(methods) == 0 {
		methods = httpMethods
	}
	if len(payload) < methodBytes {
		return false
	}
	for _, method := range methods {
		path, found := strings.CutPrefix(payload, method+" ")
		if !found {
			continue
		}
		if len(r.Paths) == 0 || slices.Equal(r.Paths, []string{"/"}) {
			return true
		}
		return slices.ContainsFunc(r.Paths, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
	}
	return false
}

// segment is a TCP segment with a payload, over IPv4 or IPv6.
func segment(ipv6 bool, options int, payload string) []byte {
	p := packet{source: localIPv4, destination: remoteIPv4, protocol: 6, sourcePort: 4000, port: 80, flags: 0x18}
	if ipv6 {
		p.source, p.destination = localIPv6, remoteIPv6
	}
	frame := p.bytes()
	header := len(frame) - 20
	frame[header+12] = byte(5+options) << 4
	frame = append(frame, make([]byte, 4*options)...)
	frame = append(frame, payload...)
	if ipv6 {
		binary.BigEndian.PutUint16(frame[14+4:], uint16(len(frame)-14-40))
	} else {
		binary.BigEndian.PutUint16(frame[14+2:], uint16(len(frame)-14))
	}
	return append(frame, make([]byte, max(0, 60-len(frame)))...) // the padding of short frames
}

var longPath = "/" + strings.Repeat("a", 89)

var requests = []Request{
	{}, {Methods: []string{"GET"}}, {Methods: []string{"GET", "DELETE"}, Paths: []string{"/"}},
	{Paths: []string{"/api", "/v1/orders/long"}}, {Methods: []string{"POST", "OPTIONS"}, Paths: []string{longPath, "/12345678"}},
}

var payloads = []string{
	"GET / HTTP/1.1\r\n", "GET /api HTTP/1.1\r\nHost: a\r\n\r\n", "GET /ap HTTP/1.1\r\n", "GET /apix HTTP/1.1\r\n", "get /api HTTP/1.1\r\n",
	"GETS /api HTTP/1.1\r\n", "DELETE /v1/orders/longer HTTP/1.1\r\n", "OPTIONS * HTTP/1.1\r\n", "OPTIONS /12345678 HTTP/1.1\r\n", "POST /1234567 HTTP/1.1\r\n",
	"POST " + longPath + " HTTP/1.1\r\n", "POST " + longPath[:89] + " HTTP/1.1\r\n", "OPTIONS " + longPath, "CONNECT a:443 HTTP/1.1\r\n", "PATCH /x HTTP/1.0\r\n",
	"", "G", "GET /api", "HEAD /ap", "PRI * HTTP/2.0\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01", " GET / HTTP/1.1\r\n", "GET  /api HTTP/1.1\r\n",
}

func requestPrograms(t *testing.T) []*ebpf.Program {
	testneeds.BeRoot(t)
	var programs []*ebpf.Program
	for _, request := range requests {
		programs = append(programs, loadSpec(t, Spec{Direction: Egress, Request: &request, Rules: []Rule{{Match{Direction: Egress}, Effect{Drop: 100}}}}))
	}
	return programs
}

func checkRequest(t *testing.T, programs []*ebpf.Program, payload string, options int) {
	t.Helper()
	for at, program := range programs {
		for _, ipv6 := range []bool{false, true} {
			got, _, err := program.Test(segment(ipv6, options, payload))
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]uint32{true: drops, false: passes}[isRequest(requests[at], payload)]; got != want {
				t.Errorf("verdict of %q (IPv6: %v, %d words of options) by %+v = %d, want %d", payload, ipv6, options, requests[at], int32(got), int32(want))
			}
		}
	}
}

func TestRequestsAreDistinguished(t *testing.T) {
	programs := requestPrograms(t)
	for _, payload := range payloads {
		for _, options := range []int{0, 3, 10} {
			checkRequest(t, programs, payload, options)
		}
	}
	udp := packet{source: localIPv4, destination: remoteIPv4, protocol: 17, port: 80}
	if got, _, err := programs[0].Test(append(udp.bytes(), "GET / HTTP/1.1\r\n"...)); err != nil || got != passes {
		t.Errorf("verdict of UDP = %d, %v, want it to pass", int32(got), err)
	}
}

// Among many rules the matching one still decides, and the program checks its request once.
func TestAllowedRequestsPass(t *testing.T) {
	testneeds.BeRoot(t)
	rules := []Rule{{Match: Match{Direction: Egress, Port: 80}}, {Match{Direction: Egress}, Effect{Drop: 100}}}
	program := loadSpec(t, Spec{Direction: Egress, Request: &Request{}, Rules: rules})
	if got, _, err := program.Test(segment(false, 0, payloads[0])); err != nil || got != passes {
		t.Errorf("verdict of a request to an allowed port = %d, %v, want it to pass", int32(got), err)
	}
}

func FuzzRequest(f *testing.F) {
	for _, payload := range payloads {
		f.Add(payload, 3)
	}
	var programs []*ebpf.Program
	f.Fuzz(func(t *testing.T, payload string, options int) {
		if programs == nil {
			testneeds.BeRoot(t)
			for _, request := range requests {
				program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT", Instructions: Program(Spec{
					Direction: Egress, Request: &request, Rules: []Rule{{Match{Direction: Egress}, Effect{Drop: 100}}}})})
				if err != nil {
					t.Fatal(err)
				}
				programs = append(programs, program) // until the process ends
			}
		}
		if len(payload) <= 1400 {
			checkRequest(t, programs, payload, options&7)
		}
	})
}

// FuzzProgram passes arbitrary bytes to a program with every check: each run returns one of
// its verdicts.
func FuzzProgram(f *testing.F) {
	for _, payload := range payloads[:4] {
		f.Add(segment(false, 1, payload), true)
		f.Add(segment(true, 1, payload), false)
	}
	f.Add(packet{source: localIPv6, destination: remoteIPv6, protocol: 17, extensions: [][]byte{option(0, 0), fragment(8)}}.bytes(), true)
	f.Add(packet{etherType: 0x0806}.bytes(), false)
	programs := map[bool]*ebpf.Program{}
	f.Fuzz(func(t *testing.T, frame []byte, corrupt bool) {
		if len(frame) < 34 || len(frame) > 3000 {
			return // the kernel makes no packet of it
		}
		if programs[corrupt] == nil {
			testneeds.BeRoot(t)
			flows, err := NewFlows()
			if err != nil {
				t.Fatal(err)
			}
			spec := Spec{Direction: Egress, Flows: flows, Rules: []Rule{
				{Match{Direction: Egress, Port: 7, State: New}, Effect{Drop: 100}}, {Match{Direction: Egress, State: Established}, Effect{Drop: 50}}, {Match{Direction: Egress}, Effect{Corrupt: 100}},
			}}
			if !corrupt {
				spec.Request = &requests[4]
			}
			program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "MIT", Instructions: Program(spec)})
			if err != nil {
				t.Fatal(err)
			}
			programs[corrupt] = program // until the process ends
		}
		verdict, _, err := programs[corrupt].Test(frame)
		if err != nil {
			t.Fatal(err)
		}
		if verdict != drops && verdict != passes {
			t.Errorf("verdict of %x = %d", frame, int32(verdict))
		}
	})
}
