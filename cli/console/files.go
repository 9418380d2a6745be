package console

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/squall-chaos/squall/cli/manifest"
)

// MostInput is the largest file that is read, in bytes: etcd takes no object
// of that size.
const MostInput = 16 << 20

// TakesFiles lets a command take files as arguments and, as kubectl does, by -f. It
// wants most of them at most, or any number if that is 0.
func TakesFiles(command *cobra.Command, most int, run func(cmd *cobra.Command, files []string) error) {
	var named []string
	command.Flags().StringArrayVarP(&named, "filename", "f", nil, "file to read, as the argument; - is stdin")
	command.Args = func(_ *cobra.Command, args []string) error {
		switch n := len(args) + len(named); {
		case n == 0:
			return Usage("no file given: pass a path, or - for stdin")
		case most > 0 && n > most:
			return Usage("%d files: want %d", n, most)
		}
		return nil
	}
	var recursive bool
	if most == 0 {
		command.Flags().BoolVarP(&recursive, "recursive", "R", false, "also read the subdirectories of a directory")
	}
	command.RunE = func(cmd *cobra.Command, args []string) error {
		files := slices.Concat(args, named)
		if recursive {
			var err error
			if files, err = withSubdirectories(files); err != nil {
				return err
			}
		}
		return run(cmd, files)
	}
}

// withSubdirectories replaces each directory by those in it that have manifests.
func withSubdirectories(names []string) (all []string, err error) {
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || !info.IsDir() {
			all = append(all, name) // a file, stdin, or an error of reading it
			continue
		}
		before := len(all)
		err := filepath.WalkDir(name, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				if _, none := filesOf(path); none == nil {
					all = append(all, path)
				}
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case len(all) == before:
			return nil, fmt.Errorf("directory %s has no file that ends in .yaml, .yml or .json, nor have its subdirectories", name)
		}
	}
	return all, nil
}

// Read reads the documents of files; - is the standard input, and a directory
// stands for its files that end in .yaml, .yml or .json.
func (s Streams) Read(names []string) ([]manifest.Document, error) {
	var documents []manifest.Document
	for _, name := range names {
		files, err := filesOf(name)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			content, err := s.content(file)
			if err != nil {
				return nil, err
			}
			documents = append(documents, manifest.Read(ShownName(file), content)...)
		}
	}
	return documents, nil
}

// ShownName is the name of a file in a message.
func ShownName(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}

func filesOf(name string) ([]string, error) {
	if name == "-" {
		return []string{name}, nil
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "://"):
		return nil, fmt.Errorf("%s is a URL: download it, or pass its content to stdin: curl -fsSL %[1]s | squall ... -", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("no file %s", name)
	case err != nil:
		return nil, err
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(name, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("directory %s has no file that ends in .yaml, .yml or .json", name)
	}
	return files, nil
}

func (s Streams) content(file string) ([]byte, error) {
	in := s.In
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer func() { _ = opened.Close() }()
		in = opened
	}
	content, err := io.ReadAll(io.LimitReader(in, MostInput+1))
	if err == nil && len(content) > MostInput {
		err = errors.New("it is larger than 16 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ShownName(file), err)
	}
	return content, nil
}
