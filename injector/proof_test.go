//go:build linux

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/squall-chaos/squall/api/v1beta1"
	"github.com/squall-chaos/squall/injector/attach"
	"github.com/squall-chaos/squall/injector/dnsdisruption/redirect"
	"github.com/squall-chaos/squall/test/grpcapp"
	"github.com/squall-chaos/squall/test/patience"
	"github.com/squall-chaos/squall/test/testcontainer"
)

// rule E1
func TestWhenAnEffectTurns(t *testing.T) {
	const proven, nothing, ineffective, lost = v1beta1.EffectProven, v1beta1.EffectNothingMatchedYet, v1beta1.EffectIneffective, v1beta1.EffectLost
	type states = []v1beta1.EffectState
	for _, test := range []struct {
		name       string
		seen, want states // want has the changes of state
	}{
		{"what is seen first counts", states{nothing}, states{nothing}},
		{"the same again is no turn", states{nothing, nothing, proven, proven}, states{nothing, proven}},
		{"what has matched once has matched, also after a beat of a pulse", states{proven, nothing, nothing, nothing, nothing}, states{proven}},
		{"one or two looks without an effect are chance", states{proven, ineffective, ineffective, proven}, states{proven}},
		{"three are not", states{proven, ineffective, ineffective, ineffective}, states{proven, ineffective}},
		{"doubts do not add up", states{proven, ineffective, ineffective, proven, ineffective, ineffective, proven}, states{proven}},
		{"three looks with an effect again", states{ineffective, proven, proven, proven}, states{ineffective, proven}},
		{"what is lost is lost at once", states{proven, lost}, states{proven, lost}},
		{"what was put on again is proven anew", states{proven, lost, nothing, proven}, states{proven, lost, nothing, proven}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var p proof
			var turns states
			for n, state := range test.seen {
				next, turned := p.after(state, fmt.Sprint(n), time.Unix(int64(n), 0))
				if p = next; turned {
					turns = append(turns, p.effect.State)
				}
				if turned && (p.effect.Since.Unix() != int64(n) || p.effect.Evidence != fmt.Sprint(n)) {
					t.Errorf("turned at %d: %+v, want this time and these figures", n, p.effect)
				}
			}
			if fmt.Sprint(turns) != fmt.Sprint(test.want) {
				t.Errorf("turns = %v, want %v", turns, test.want)
			}
		})
	}
}

func TestFiguresOfAStateAreTheNewest(t *testing.T) {
	p, _ := proof{}.after(v1beta1.EffectProven, "1 packet", time.Unix(1, 0))
	p, _ = p.after(v1beta1.EffectProven, "2 packets"+strings.Repeat("!", 1000), time.Unix(2, 0))
	if !strings.HasPrefix(p.effect.Evidence, "2 packets") || len(p.effect.Evidence) > maxEvidence || p.effect.Since.Unix() != 1 {
		t.Errorf("effect = %+v, want the newest figures, cut, and the time of the turn", p.effect)
	}
}

// removeFault removes the fault of an injector without its knowledge.
var removeFault = map[v1beta1.Kind]func(t *testing.T, p *process, made *testcontainer.Container){
	v1beta1.KindCPUPressure:    killMarked,
	v1beta1.KindMemoryPressure: killMarked,
	v1beta1.KindDiskFailure:    killMarked,
	v1beta1.KindDiskPressure: func(t *testing.T, _ *process, made *testcontainer.Container) {
		file := made.File(t, "blkio", "blkio.throttle.read_bps_device", "io.max")
		device, rest, _ := strings.Cut(mustRead(t, file), " ")
		none := device + " 0"
		if strings.Contains(rest, "=") {
			none = device + " rbps=max"
		}
		if err := writeFile(file, none); err != nil {
			t.Fatal(err)
		}
	},
	v1beta1.KindDNS:  deleteTable,
	v1beta1.KindGRPC: func(t *testing.T, _ *process, made *testcontainer.Container) { grpcapp.Reset(t, made.PID) },
	v1beta1.KindNetwork: func(t *testing.T, p *process, _ *testcontainer.Container) {
		if n := detach(t, attach.MarkOf(p.injection).Program); n == 0 {
			t.Fatal("no program is attached")
		}
	},
}

// momentary lists the kinds whose effect cannot be removed: it happens in a moment.
var momentary = []v1beta1.Kind{v1beta1.KindContainerFailure, v1beta1.KindNodeFailure}

// rules E2, E3: with the settings of the product, on a real kernel.
// TestWhatIsTakenOffIsSeenWithinFiveSeconds shows the 5 s for every moment of a loss.
func TestEffectTakenOffIsLost(t *testing.T) {
	for kind := range registry {
		if kind == momentary[0] || kind == momentary[1] {
			continue
		}
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			made := testcontainer.Start(t, targetCommand(t, kind)...)
			awaitTarget(t, kind, made)
			s := realSite(t)
			injection := injectionOn(kind, sampleParams[kind], made)
			injection.Disruption.UID = types.UID(made.ID)
			p := s.inject(injection)
			p.awaitReady()
			p.awaitEffect("") // any
			removeFault[kind](t, p, made)
			var evidence string
			patience.Promise(t, "E2", 5*time.Second, "the effect is lost", func() (err error) {
				evidence, err = p.effect(v1beta1.EffectLost)
				return err
			})
			if evidence == "" {
				t.Error("it is not said what was lost")
			}
			if code, output := s.run("ready"); code != 1 || !strings.Contains(output, string(v1beta1.EffectLost)) && !strings.Contains(output, v1beta1.MessageInjectionFailed) {
				t.Errorf("ready = %d, %q, want 1 and why", code, output)
			}
			if kind == v1beta1.KindDiskFailure {
				return // a listener that dies ends the injection, which stays not ready
			}
			p.awaitLine("injected again")
			if code, output := s.run("ready"); code != 0 {
				t.Errorf("ready = %d, %q, want 0: it was told once", code, output)
			}
			p.signal(syscall.SIGTERM)
			code, effect := p.exit(), p.outcome().Effect
			if effect == nil || effect.State == v1beta1.EffectLost {
				t.Errorf("effect at the end = %+v, want what was measured after it was injected again", effect)
			}
			if code != 0 || len(s.journals()) > 0 || len(p.marks()) > 0 {
				t.Errorf("exit code %d, journals %v, marks %v, want nothing left", code, s.journals(), p.marks())
			}
		})
	}
}

// A kind whose effect cannot be removed reports at its end what it did.
func TestMomentaryEffectIsProvenInTheEnd(t *testing.T) {
	made := testcontainer.Start(t, testcontainer.Sleeps...)
	s := realSite(t)
	p := s.inject(injectionOn(v1beta1.KindContainerFailure, sampleParams[v1beta1.KindContainerFailure], made))
	p.awaitReady()
	p.signal(syscall.SIGTERM)
	p.exit()
	effect := p.outcome().Effect
	if effect == nil || effect.State != v1beta1.EffectProven || !strings.Contains(effect.Evidence, fmt.Sprint(made.PID)) {
		t.Errorf("effect = %+v, want it proven, with process %d", effect, made.PID)
	}
}

// awaitEffect waits for a log line with this state, or any, and returns the evidence.
func (p *process) awaitEffect(state v1beta1.EffectState) (evidence string) {
	p.t.Helper()
	testcontainer.Eventually(p.t, "effect "+string(state), func() (err error) {
		evidence, err = p.effect(state)
		return err
	})
	return evidence
}

// effect returns the evidence of the first log line with this state, or any.
func (p *process) effect(state v1beta1.EffectState) (evidence string, err error) {
	p.t.Helper()
	for _, line := range p.lines() {
		if line["msg"] == v1beta1.MessageEffect && (state == "" || line["state"] == string(state)) {
			evidence, _ = line["evidence"].(string)
			return evidence, nil
		}
	}
	return "", errors.New("no such line")
}

func killMarked(t *testing.T, p *process, _ *testcontainer.Container) {
	for _, mark := range p.marks() {
		fields := strings.Fields(mark) // "burner process 12"
		var pid int
		if _, err := fmt.Sscan(fields[len(fields)-1], &pid); err != nil {
			t.Fatalf("mark %q: %v", mark, err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// detach removes every BPF link of programs of this name.
func detach(t *testing.T, program string) (detached int) {
	var links link.Iterator
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err != nil {
			continue
		}
		attached, err := ebpf.NewProgramFromID(info.Program)
		if err != nil {
			continue
		}
		about, err := attached.Info()
		attached.Close()
		if err != nil || about.Name != program {
			continue
		}
		if err := links.Link.Detach(); err != nil {
			t.Fatal(err)
		}
		detached++
	}
	return detached
}

// deleteTable deletes the table of the packet filter that redirects questions. The injector
// owns it, and the kernel accepts the deletion from the owner's sockets only, so the test
// borrows one.
func deleteTable(t *testing.T, p *process, _ *testcontainer.Container) {
	const batchBegin, batchEnd, deleteTable, nftables = 0x10, 0x11, 2, 10
	name := append([]byte(redirect.TableOf(p.injection)), 0)
	attribute := binary.NativeEndian.AppendUint16(nil, uint16(4+len(name)))
	attribute = append(binary.NativeEndian.AppendUint16(attribute, unix.NFTA_TABLE_NAME), name...)
	attribute = append(attribute, make([]byte, -len(attribute)&3)...)
	var batch []byte
	for n, m := range []struct {
		what    uint16
		payload []byte
	}{{batchBegin, []byte{0, 0, 0, nftables}}, {nftables<<8 | deleteTable, append([]byte{unix.NFPROTO_INET, 0, 0, 0}, attribute...)}, {batchEnd, []byte{0, 0, 0, nftables}}} {
		batch = binary.NativeEndian.AppendUint32(batch, uint32(unix.NLMSG_HDRLEN+len(m.payload)))
		batch = binary.NativeEndian.AppendUint16(batch, m.what)
		batch = binary.NativeEndian.AppendUint16(batch, unix.NLM_F_REQUEST)
		batch = binary.NativeEndian.AppendUint32(batch, uint32(n+1))
		batch = append(binary.NativeEndian.AppendUint32(batch, 0), m.payload...)
	}
	pid := p.command.Process.Pid
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	for fd := range 256 {
		socket, err := unix.PidfdGetfd(pidfd, fd, 0)
		if err != nil {
			continue
		}
		if protocol, _ := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL); protocol == unix.NETLINK_NETFILTER {
			// Another socket may be the owner.
			_ = unix.Sendto(socket, batch, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		}
		unix.Close(socket)
	}
}

func mustRead(t *testing.T, file string) string {
	t.Helper()
	content, err := readFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
