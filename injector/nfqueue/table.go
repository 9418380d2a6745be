//go:build linux

package nfqueue

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
)

// table is a table of the packet filter that the kernel deletes with its socket:
// NFT_TABLE_F_OWNER, Linux 5.12. The library for such tables lacks this flag.
type table struct {
	Plan
	conn   *netlink.Conn
	number uint16 // of the queue
	target func(number uint16) expression
}

// Hooks and priorities. Arriving packets are selected before anything else can change them,
// leaving ones after everything else.
const (
	hookPrerouting, hookPostrouting = 0, 4

	priorityFirst, priorityLast = -450, 500
)

func newTable(netns int, p Plan, number uint16) (*table, error) {
	conn, err := dial(netns)
	if err != nil {
		return nil, err
	}
	t := &table{Plan: p, conn: conn, number: number}
	err = t.commit([]netlink.Message{
		t.message(unix.NFT_MSG_NEWTABLE, netlink.Create|netlink.Excl, func(a *netlink.AttributeEncoder) {
			a.String(unix.NFTA_TABLE_NAME, p.Table)
			a.Uint32(unix.NFTA_TABLE_FLAGS, tableOwner)
		}),
		t.chain(classifier.Egress, hookPostrouting, priorityLast),
		t.chain(classifier.Ingress, hookPrerouting, priorityFirst),
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("make table %s of the packet filter (CONFIG_NF_TABLES, CONFIG_NF_TABLES_INET, Linux 5.12): %w", p.Table, err)
	}
	return t, nil
}

// tableOwner is NFT_TABLE_F_OWNER.
const tableOwner = 2

func (t *table) close() error { return t.conn.Close() }

// setRules replaces the rules by those of the programs, all at once.
func (t *table) setRules(programs map[classifier.Direction]*ebpf.Program) error {
	var errs []error
	for _, target := range []func(uint16) expression{nativeQueue, compatQueue} {
		if t.target != nil {
			target = t.target
		}
		err := t.commit(t.rules(programs, target))
		if err == nil {
			if len(programs) > 0 {
				t.target = target
			}
			return nil
		}
		errs = append(errs, err)
		if t.target != nil {
			break
		}
	}
	return fmt.Errorf("hand packets to a queue, by nft queue (CONFIG_NFT_QUEUE) or by xt NFQUEUE (CONFIG_NFT_COMPAT,"+
		" CONFIG_NETFILTER_XT_TARGET_NFQUEUE), selected by xt bpf (CONFIG_NETFILTER_XT_MATCH_BPF): %w", errors.Join(errs...))
}

func (t *table) rules(programs map[classifier.Direction]*ebpf.Program, target func(uint16) expression) []netlink.Message {
	var messages []netlink.Message
	for _, direction := range []classifier.Direction{classifier.Egress, classifier.Ingress} {
		messages = append(messages, t.message(unix.NFT_MSG_DELRULE, 0, func(a *netlink.AttributeEncoder) {
			a.String(unix.NFTA_RULE_TABLE, t.Table)
			a.String(unix.NFTA_RULE_CHAIN, string(direction))
		}))
		program, found := programs[direction]
		if !found {
			continue
		}
		messages = append(messages, t.rule(direction, append(t.conditions(direction), matchProgram(program), target(t.number))))
	}
	return messages
}

// conditions must hold before the program runs.
func (t *table) conditions(direction classifier.Direction) []expression {
	switch {
	case direction == classifier.Ingress:
		return notLoopback(metaInputType) // a loopback packet was selected when it left
	case !t.Loopback:
		return notLoopback(metaOutputType)
	}
	return nil
}

func (t *table) chain(direction classifier.Direction, hook, priority int) netlink.Message {
	return t.message(unix.NFT_MSG_NEWCHAIN, netlink.Create, func(a *netlink.AttributeEncoder) {
		a.String(unix.NFTA_CHAIN_TABLE, t.Table)
		a.String(unix.NFTA_CHAIN_NAME, string(direction))
		a.String(unix.NFTA_CHAIN_TYPE, "filter")
		nested(a, unix.NFTA_CHAIN_HOOK, func(a *netlink.AttributeEncoder) {
			a.Uint32(unix.NFTA_HOOK_HOOKNUM, uint32(hook))
			a.Uint32(unix.NFTA_HOOK_PRIORITY, uint32(int32(priority)))
		})
	})
}

func (t *table) rule(direction classifier.Direction, expressions []expression) netlink.Message {
	return t.message(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append, func(a *netlink.AttributeEncoder) {
		a.String(unix.NFTA_RULE_TABLE, t.Table)
		a.String(unix.NFTA_RULE_CHAIN, string(direction))
		nested(a, unix.NFTA_RULE_EXPRESSIONS, func(a *netlink.AttributeEncoder) {
			for _, e := range expressions {
				nested(a, unix.NFTA_LIST_ELEM, e.encode)
			}
		})
	})
}

func (t *table) message(kind int, flags netlink.HeaderFlags, write func(*netlink.AttributeEncoder)) netlink.Message {
	return message(unix.NFNL_SUBSYS_NFTABLES, kind, flags|netlink.Acknowledge, unix.NFPROTO_INET, 0, encode(write))
}

// commit sends messages that take effect all or not at all.
func (t *table) commit(messages []netlink.Message) error {
	bracket := func(kind netlink.HeaderType) netlink.Message {
		m := message(0, 0, 0, unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES, nil)
		m.Header.Type = kind
		return m
	}
	batch := append([]netlink.Message{bracket(unix.NFNL_MSG_BATCH_BEGIN)}, messages...)
	if _, err := t.conn.SendMessages(append(batch, bracket(unix.NFNL_MSG_BATCH_END))); err != nil {
		return err
	}
	for answered := 0; answered < len(messages); {
		answers, err := t.conn.Receive()
		if err != nil {
			return errors.Join(err, t.drain())
		}
		answered += len(answers)
	}
	return nil
}

// drain discards the kernel's other messages about a batch that it refused. All of them
// exist when the batch has been sent. Otherwise they would count as answers to the next
// batch, however late that comes.
func (t *table) drain() error {
	socket, err := t.conn.SyscallConn()
	if err != nil {
		return err
	}
	var answer [1]byte // the rest of a message is discarded with it
	var last error
	err = socket.Read(func(fd uintptr) bool {
		for last = nil; last == nil || errors.Is(last, unix.EINTR) || errors.Is(last, unix.ENOBUFS); {
			_, _, last = unix.Recvfrom(int(fd), answer[:], unix.MSG_DONTWAIT)
		}
		return true
	})
	if errors.Is(last, unix.EAGAIN) {
		last = nil
	}
	return errors.Join(err, last)
}

// expression is a part of a rule: its name and attributes.
type expression struct {
	name  string
	write func(*netlink.AttributeEncoder)
}

func (e expression) encode(a *netlink.AttributeEncoder) {
	a.String(unix.NFTA_EXPR_NAME, e.name)
	nested(a, unix.NFTA_EXPR_DATA, e.write)
}

// Keys of a packet's meta data: the types of its links.
const metaInputType, metaOutputType = unix.NFT_META_IIFTYPE, unix.NFT_META_OIFTYPE

func notLoopback(key uint32) []expression {
	return []expression{
		{"meta", func(a *netlink.AttributeEncoder) {
			a.Uint32(unix.NFTA_META_DREG, unix.NFT_REG_1)
			a.Uint32(unix.NFTA_META_KEY, key)
		}},
		compare(unix.NFT_CMP_NEQ, binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_LOOPBACK)),
	}
}

func compare(operator uint32, value []byte) expression {
	return expression{"cmp", func(a *netlink.AttributeEncoder) {
		a.Uint32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		a.Uint32(unix.NFTA_CMP_OP, operator)
		nested(a, unix.NFTA_CMP_DATA, func(a *netlink.AttributeEncoder) { a.Bytes(unix.NFTA_DATA_VALUE, value) })
	}}
}

// matchProgram matches packets that a program selects: struct xt_bpf_info_v1 with the mode
// XT_BPF_MODE_FD_ELF.
func matchProgram(program *ebpf.Program) expression {
	const length, modeDescriptor = 4 + 4 + 512 + 8, 2
	info := make([]byte, length)
	binary.NativeEndian.PutUint16(info, modeDescriptor)
	binary.NativeEndian.PutUint32(info[4:], uint32(program.FD()))
	return compat("match", "bpf", 1, info)
}

// nativeQueue and compatQueue end a packet's path through the rules at a queue, or pass it
// if the queue has no listener.
func nativeQueue(number uint16) expression {
	return expression{"queue", func(a *netlink.AttributeEncoder) {
		a.Uint16(unix.NFTA_QUEUE_NUM, number)
		a.Uint16(unix.NFTA_QUEUE_TOTAL, 1)
		a.Uint16(unix.NFTA_QUEUE_FLAGS, queueBypass)
	}}
}

// compatQueue is struct xt_NFQ_info_v3.
func compatQueue(number uint16) expression {
	info := make([]byte, 8)
	binary.NativeEndian.PutUint16(info, number)
	binary.NativeEndian.PutUint16(info[2:], 1)
	binary.NativeEndian.PutUint16(info[4:], queueBypass)
	return compat("target", "NFQUEUE", 3, info)
}

const queueBypass = 1

// compat is an extension of the older packet filter. Matches and targets have
// the same attributes.
func compat(kind, name string, revision uint32, info []byte) expression {
	return expression{kind, func(a *netlink.AttributeEncoder) {
		a.String(unix.NFTA_MATCH_NAME, name)
		a.Uint32(unix.NFTA_MATCH_REV, revision)
		a.Bytes(unix.NFTA_MATCH_INFO, info)
	}}
}
