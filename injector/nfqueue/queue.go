//go:build linux

package nfqueue

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// firstNumber and numbers are the queues to try: one process can listen on each, and other
	// programs use the low numbers.
	firstNumber, numbers = 0x5171, 64
	// mostPackets wait at once. More pass without a delay.
	mostPackets = 100_000
	// receiveBuffer is how many bytes of messages about packets may wait.
	receiveBuffer = 32 << 20
	// mostVerdicts are sent at once.
	mostVerdicts = 128
)

// Messages and attributes of linux/netfilter/nfnetlink_queue.h.
const (
	messagePacket, messageVerdict, messageConfig = 0, 1, 2

	attributePacketHeader, attributeVerdictHeader = 1, 2

	configCommand, configParameters, configMostPackets, configMask, configFlags = 1, 2, 3, 4, 5

	commandBind = 1
	copyMeta    = 1
	flagPass    = 1 // NFQA_CFG_F_FAIL_OPEN: packets beyond its room pass
	flagWhole   = 4 // NFQA_CFG_F_GSO: packets are not segmented for us
	accept      = 1
)

// queue holds packets of one queue of the kernel.
type queue struct {
	conn          *netlink.Conn
	number        uint16
	delay, jitter time.Duration

	taken   atomic.Uint64 // packets that have waited, or wait
	mu      sync.Mutex
	waiting waiting
	wake    chan struct{} // the first due packet has changed

	stop  chan struct{}
	ended sync.WaitGroup
}

// packet is a waiting packet, by the number that the kernel gave it.
type packet struct {
	due time.Time
	id  uint32
}

// listen takes the first free queue of a namespace.
func listen(netns int, delay, jitter time.Duration) (*queue, error) {
	conn, err := dial(netns)
	if err != nil {
		return nil, err
	}
	// Where the kernel refuses this option, packets pass undelayed when this process is too
	// slow.
	_ = conn.SetOption(netlink.NoENOBUFS, true)
	_ = conn.SetReadBuffer(receiveBuffer)
	q := &queue{conn: conn, delay: delay, jitter: jitter, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	for q.number = firstNumber; q.number < firstNumber+numbers; q.number++ {
		if err = q.bind(); !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EPERM) {
			break
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("listen on a queue of the packet filter (CONFIG_NETFILTER_NETLINK_QUEUE, module nfnetlink_queue): %w", err)
	}
	q.ended.Go(q.receive)
	q.ended.Go(q.release)
	return q, nil
}

func (q *queue) bind() error {
	attributes := encode(func(a *netlink.AttributeEncoder) {
		a.Bytes(configCommand, []byte{commandBind, 0, 0, 0})
		a.Bytes(configParameters, []byte{0, 0, 0, 0, copyMeta})
		a.Uint32(configMostPackets, mostPackets)
		a.Uint32(configMask, flagPass|flagWhole)
		a.Uint32(configFlags, flagPass|flagWhole)
	})
	_, err := q.conn.Execute(message(unix.NFNL_SUBSYS_QUEUE, messageConfig, netlink.Acknowledge, unix.AF_UNSPEC, q.number, attributes))
	return err
}

// receive queues packets as they arrive. If it ends without close, the queue has no
// listener any more, and packets pass.
func (q *queue) receive() {
	defer q.conn.Close()
	for {
		messages, err := q.conn.Receive()
		// The kernel forgets packets, such as those of a removed link, and answers a verdict
		// about them with ENOENT.
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOBUFS) {
			return
		}
		now := time.Now()
		for _, m := range messages {
			if m.Header.Type != unix.NFNL_SUBSYS_QUEUE<<8|messagePacket {
				continue
			}
			_ = eachAttribute(m, func(a *netlink.AttributeDecoder) {
				if a.Type() == attributePacketHeader {
					q.add(packet{now.Add(q.wait()), binary.BigEndian.Uint32(a.Bytes())})
				}
			})
		}
	}
}

// wait returns how long the next packet waits.
func (q *queue) wait() time.Duration {
	if q.jitter <= 0 {
		return q.delay
	}
	return max(0, q.delay+rand.N(2*q.jitter+1)-q.jitter)
}

func (q *queue) add(p packet) {
	q.taken.Add(1)
	q.mu.Lock()
	heap.Push(&q.waiting, p)
	first := q.waiting[0].id == p.id
	q.mu.Unlock()
	if first {
		select {
		case q.wake <- struct{}{}:
		default: // release wakes anyway
		}
	}
}

// release returns packets to the kernel when they are due.
func (q *queue) release() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		due, next := q.take(time.Now())
		q.pass(due)
		if len(due) == mostVerdicts {
			continue
		}
		timer.Reset(next)
		select {
		case <-q.stop:
			return
		case <-q.wake:
		case <-timer.C:
		}
	}
}

// take removes packets that are due, at most as many as one batch sends, and returns the
// time to the next one.
func (q *queue) take(now time.Time) (due []packet, next time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) > 0 && len(due) < mostVerdicts {
		if next = q.waiting[0].due.Sub(now); next > 0 {
			return due, next
		}
		due = append(due, heap.Pop(&q.waiting).(packet))
	}
	return due, time.Hour
}

// pass returns packets to the kernel. It drops packets that cannot be sent any more.
func (q *queue) pass(packets []packet) {
	var messages []netlink.Message
	for _, p := range packets {
		verdict := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, accept), p.id)
		attributes := encode(func(a *netlink.AttributeEncoder) { a.Bytes(attributeVerdictHeader, verdict) })
		messages = append(messages, message(unix.NFNL_SUBSYS_QUEUE, messageVerdict, 0, unix.AF_UNSPEC, q.number, attributes))
	}
	if len(messages) > 0 {
		_, _ = q.conn.SendMessages(messages)
	}
}

// flush passes all waiting packets, in the order of their times, until no more arrive.
func (q *queue) flush() {
	for quiet := 0; quiet < 3; {
		due, _ := q.take(time.Now().Add(q.delay + q.jitter + time.Hour))
		q.pass(due)
		if len(due) > 0 {
			quiet = 0
			continue
		}
		quiet++
		time.Sleep(2 * time.Millisecond) // packets on their way when the rules were removed
	}
}

func (q *queue) close() {
	close(q.stop)
	_ = q.conn.Close() // or receive was faster
	q.ended.Wait()
}

// waiting is a heap with the first due packet at the top.
type waiting []packet

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].due.Before(w[j].due) }
func (w waiting) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }

// Push implements heap.Interface.
func (w *waiting) Push(p any) { *w = append(*w, p.(packet)) }

// Pop implements heap.Interface.
func (w *waiting) Pop() any {
	last := len(*w) - 1
	p := (*w)[last]
	*w = (*w)[:last]
	return p
}
