package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A program inside a virtual machine cannot be started from outside. A request to
// load an archive is a file in the machine's directory of logs instead. Its name
// ends in asked; the machine renames it to end in loaded or refused.
const asked, loaded, refused = ".asked", ".loaded", ".refused"

// inboxPause is the time between two looks at what is asked for.
const inboxPause = time.Second

// attend loads what is asked for, for ever.
func (k *keeper) attend(inbox string, log *os.File) {
	for ; ; time.Sleep(inboxPause) {
		requests, _ := filepath.Glob(filepath.Join(inbox, "*"+asked)) // the pattern is well-formed
		for _, request := range requests {
			result := loaded
			if err := k.load(request, log); err != nil {
				fmt.Fprintf(log, "devcluster: %s: %v\n", request, err)
				result = refused
			}
			_ = os.Rename(request, strings.TrimSuffix(request, asked)+result) // else it is done again
		}
	}
}

func (k *keeper) load(request string, log *os.File) error {
	archive, err := os.ReadFile(request)
	if err != nil {
		return err
	}
	ended, err := k.start(Daemon{Args: ImportCommand(filepath.Join(hostDir, string(archive)))}, log)
	if err != nil {
		return err
	}
	if status := <-ended; status != 0 {
		return fmt.Errorf("load %s: wait status %#x", archive, int(status))
	}
	return nil
}

// Ask has a virtual machine, whose logs are in the directory, load an archive of
// the host's, and returns when it has.
func Ask(ctx context.Context, logs, archive string) error {
	request := filepath.Join(logs, filepath.Base(archive))
	for _, end := range []string{loaded, refused} {
		if err := os.Remove(request + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.WriteFile(request+".new", []byte(archive), 0o644); err != nil {
		return err
	}
	if err := os.Rename(request+".new", request+asked); err != nil {
		return err
	}
	for {
		if os.Remove(request+loaded) == nil {
			return nil
		}
		if os.Remove(request+refused) == nil {
			return fmt.Errorf("it was refused; see %s", filepath.Join(logs, "inbox.log"))
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), os.Remove(request+asked))
		case <-time.After(100 * time.Millisecond):
		}
	}
}
