package oneline

import (
	"errors"
	"io/fs"
	"testing"
)

func TestJoin(t *testing.T) {
	if err := Join(nil, nil); err != nil {
		t.Errorf("Join(nil, nil) = %v, want nil", err)
	}
	err := Join(errors.New("first"), nil, errors.Join(errors.New("second"), fs.ErrNotExist))
	if want := "first; second; file does not exist"; err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Join() = %v, want %q, and errors.Is to look inside", err, want)
	}
}
