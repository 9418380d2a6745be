package patience

import (
	"os"
	"testing"
	"time"
)

func TestRunDelay(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("needs a kernel with schedstat: ", err)
	}
	ranBefore, delayedBefore, err := RunDelay(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	burn(300 * time.Millisecond)
	ran, delayed, err := RunDelay(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if ran-ranBefore < 50*time.Millisecond || delayed-delayedBefore < 50*time.Millisecond {
		t.Errorf("ran %s and waited %s, want both counted while four threads share each processor", ran-ranBefore, delayed-delayedBefore)
	}
	if _, _, err := RunDelay(1 << 30); err == nil {
		t.Error("RunDelay of no process = nil, want an error")
	}
}
