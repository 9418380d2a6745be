//go:build linux

package nfqueue

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/squall-chaos/squall/injector/classifier"
	"github.com/squall-chaos/squall/injector/target"
	"github.com/squall-chaos/squall/test/testneeds"
)

// On a slow machine an answer may stay unread for a while.
func TestARefusedBatchLeavesNoAnswers(t *testing.T) {
	testneeds.BeRoot(t)
	err := target.InNewNetns(func(path string) error {
		netns, err := os.Open(path)
		if err != nil {
			return err
		}
		defer netns.Close()
		made, err := newTable(int(netns.Fd()), Plan{Table: "test"}, firstNumber)
		if err != nil {
			return err
		}
		defer made.close()
		var refused []netlink.Message
		for range 20 {
			refused = append(refused, made.rule(classifier.Egress, []expression{{name: "nobody", write: func(*netlink.AttributeEncoder) {}}}))
		}
		if err := made.commit(refused); !errors.Is(err, unix.ENOENT) {
			t.Errorf("a batch with expressions that no kernel has = %v, want ENOENT", err)
		}
		if err := made.conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			return err
		}
		if left, err := made.conn.Receive(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after it the kernel still says %v, %v, want nothing", left, err)
		}
		return errors.Join(made.conn.SetReadDeadline(time.Time{}), made.setRules(nil))
	})
	if err != nil {
		t.Fatal(err)
	}
}
