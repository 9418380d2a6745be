package vm

import (
	"bytes"
	"testing"
)

// The layout is that of the kernel's page on the format: a magic number, thirteen
// numbers of eight digits, the name and its end, and then the content, both filled
// up to four bytes.
func TestNewc(t *testing.T) {
	var out bytes.Buffer
	archive := &newc{to: &out}
	archive.add("init", modeFile|0o755, []byte("xyz"))
	want := "070701" + "00000001" + "000081ED" + "00000000" + "00000000" + "00000001" + "00000000" + "00000003" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000005" + "00000000" + "init\x00" + "\x00" + "xyz" + "\x00"
	if archive.err != nil || out.String() != want {
		t.Errorf("the archive is %q, %v\nwant %q", out.String(), archive.err, want)
	}
}
