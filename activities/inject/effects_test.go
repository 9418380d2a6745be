package inject

import (
	"testing"
	"time"
)

func TestPausesBetweenLooksGrow(t *testing.T) {
	var last time.Duration
	for looks := range int32(40) {
		pause := effectPause(looks + 1)
		if pause < last || pause < effectGap || pause > effectGapMax {
			t.Errorf("after %d looks the pause is %s, after one less %s", looks+1, pause, last)
		}
		last = pause
	}
	if last != effectGapMax {
		t.Errorf("the longest pause is %s, want %s", last, effectGapMax)
	}
}
