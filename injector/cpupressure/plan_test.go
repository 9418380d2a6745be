//go:build linux

package cpupressure

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestBusy(t *testing.T) {
	text := func(s string) *intstr.IntOrString { v := intstr.FromString(s); return &v }
	number := func(n int32) *intstr.IntOrString { v := intstr.FromInt32(n); return &v }
	tests := []struct {
		name    string
		count   *intstr.IntOrString
		allowed int
		want    time.Duration // zero: refused
	}{
		{"no count burns all of every CPU", nil, 4, 100 * time.Millisecond},
		{"a percentage is of every CPU", text("50%"), 4, 50 * time.Millisecond},
		{"the smallest percentage", text("1%"), 4, time.Millisecond},
		{"the largest percentage", text("100%"), 4, 100 * time.Millisecond},
		{"cores are spread over the CPUs", number(1), 4, 25 * time.Millisecond},
		{"three of four cores", number(3), 4, 75 * time.Millisecond},
		{"all cores", number(4), 4, 100 * time.Millisecond},
		{"more cores than allowed burn them all", number(64), 4, 100 * time.Millisecond},
		{"digits in quotes are cores", text("2"), 4, 50 * time.Millisecond},
		{"zero percent is refused", text("0%"), 4, 0},
		{"more than all is refused", text("101%"), 4, 0},
		{"zero cores are refused", number(0), 4, 0},
		{"negative cores are refused", number(-1), 4, 0},
		{"words are refused", text("all"), 4, 0},
		{"nothing in quotes is refused", text(""), 4, 0},
		{"a fraction is refused", text("12.5%"), 4, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			load, err := loadOf(test.count)
			if (err != nil) != (test.want == 0) {
				t.Fatalf("loadOf(%v) = %v, %v, want refused: %v", test.count, load, err, test.want == 0)
			}
			if err != nil {
				return
			}
			if got := load.busy(test.allowed); got != test.want {
				t.Errorf("busy(%d) of %v = %v, want %v", test.allowed, test.count, got, test.want)
			}
			if again, err := parseLoad(load.String()); err != nil || again != load {
				t.Errorf("parseLoad(%q) = %v, %v, want %v: the burner would burn something else", load.String(), again, err, load)
			}
		})
	}
}

func TestParseCPUList(t *testing.T) {
	tests := []struct {
		list string
		want []int // nil: refused
	}{
		{"0", []int{0}},
		{"0-3", []int{0, 1, 2, 3}},
		{"0-1,4,6-7\n", []int{0, 1, 4, 6, 7}},
		{"", nil},
		{"3-1", nil},
		{"0,x", nil},
	}
	for _, test := range tests {
		got, err := parseCPUList(test.list)
		if (err != nil) != (test.want == nil) || err == nil && !cmp.Equal(got, test.want) {
			t.Errorf("parseCPUList(%q) = %v, %v, want %v", test.list, got, err, test.want)
		}
	}
}

func TestNextEnd(t *testing.T) {
	end := time.Unix(100, 0)
	if got, want := nextEnd(end, end.Add(time.Millisecond)), end.Add(period); !got.Equal(want) {
		t.Errorf("on time: nextEnd = %v, want the next point of the grid %v", got, want)
	}
	late := end.Add(10 * period)
	if got, want := nextEnd(end, late), late.Add(period); !got.Equal(want) {
		t.Errorf("held up for ten periods: nextEnd = %v, want %v, without making up for them", got, want)
	}
}
