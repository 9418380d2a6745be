package histories

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
)

// Find is the file of that name.
func Find(name string) (File, bool) {
	i := slices.IndexFunc(Files, func(f File) bool { return f.Name == name })
	if i < 0 {
		return File{}, false
	}
	return Files[i], true
}

// Keep writes a history that a recorder made into a directory. It refuses a
// name that is not the recorder's, a history that lacks a path of its file, and a
// directory that is frozen.
func Keep(directory, recorder, name string, all *history.History) error {
	file, found := Find(name)
	if !found || file.Recorder != recorder {
		return fmt.Errorf("history %s is not recorded by %s: see the list in test/histories", name, recorder)
	}
	if missing := file.Missing(all); len(missing) > 0 {
		return fmt.Errorf("history %s lacks %q; it has %v", name, missing, Paths(all))
	}
	if _, err := os.Stat(filepath.Join(directory, Sums)); err == nil {
		return fmt.Errorf("history %s: %s is released and stays as it is; record into generation %s", name, directory, Generation)
	}
	document, err := temporalproto.CustomJSONMarshalOptions{Indent: " "}.Marshal(all)
	if err != nil {
		return fmt.Errorf("history %s: %w", name, err)
	}
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("history %s: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(directory, name+".json"), append(document, '\n'), 0o644); err != nil {
		return fmt.Errorf("history %s: %w", name, err)
	}
	return nil
}
