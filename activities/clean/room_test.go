package clean

import (
	"slices"
	"testing"
	"time"
)

func TestRoomPause(t *testing.T) {
	var got []time.Duration
	for times := range 6 {
		got = append(got, roomPause(times+1)/time.Second)
	}
	if want := []time.Duration{4, 8, 16, 30, 30, 30}; !slices.Equal(got, want) {
		t.Errorf("roomPause() = %d s, want %d s", got, want)
	}
}
