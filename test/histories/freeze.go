package histories

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Sums is the file with the checksums of a generation that is frozen.
const Sums = "SHA256SUMS"

// aCount is the line of list.go with the number of frozen generations.
var aCount = regexp.MustCompile(`(?m)^const Released = (\d+)$`)

// Freeze has the generation that is recorded into, of a checkout, stay as it is: it
// writes the sums, and then counts Released up. It returns that generation and how many
// histories are in it. Interrupted, it is done again.
func Freeze(root string) (generation, files int, err error) {
	list := filepath.Join(root, "test", "histories", "list.go")
	text, err := os.ReadFile(list)
	if err != nil {
		return 0, 0, err
	}
	before, err := released(text)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", list, err)
	}
	generation = before + 1
	directory := filepath.Join(root, "workflows", "testdata", "histories", strconv.Itoa(generation))
	sums, files, err := sumsOf(directory)
	if err != nil {
		return 0, 0, err
	}
	if files == 0 {
		return 0, 0, fmt.Errorf("%s: generation %d has no history: nothing was recorded since the last release, and nothing is to be frozen", directory, generation)
	}
	if err := os.WriteFile(filepath.Join(directory, Sums), []byte(sums), 0o644); err != nil {
		return 0, 0, err
	}
	text = aCount.ReplaceAll(text, fmt.Appendf(nil, "const Released = %d", generation))
	return generation, files, os.WriteFile(list, text, 0o644)
}

// released is the number of frozen generations in a list.go.
func released(list []byte) (int, error) {
	count := aCount.FindAllSubmatch(list, -1)
	if len(count) != 1 {
		return 0, fmt.Errorf("%d lines are \"const Released = NUMBER\", want one", len(count))
	}
	return strconv.Atoi(string(count[0][1]))
}

// sumsOf are the checksums of a directory's histories, as sha256sum --check reads them.
func sumsOf(directory string) (sums string, files int, err error) {
	names, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return "", 0, err
	}
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", 0, err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), filepath.Base(name))
	}
	return lines.String(), len(names), nil
}

// Newest is the file of a history in the newest generation that has it: one that was
// not recorded again since a release is that of the release.
func Newest(root, name string) (string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", err
	}
	newest, path := 0, ""
	for _, entry := range entries {
		generation, err := strconv.Atoi(entry.Name())
		candidate := filepath.Join(root, entry.Name(), name+".json")
		if err != nil || generation <= newest {
			continue
		}
		if _, err := os.Stat(candidate); err == nil {
			newest, path = generation, candidate
		}
	}
	if path == "" {
		file, _ := Find(name)
		return "", fmt.Errorf("no generation in %s has the history %s: record it with the tests of %s", root, name, file.Recorder)
	}
	return path, nil
}
