package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"syscall"
)

// open opens a file again and again and prints how often that ended how: "ok", or
// the error in words.
func open(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("open", flag.ContinueOnError)
	count := flags.Int("count", 1, "how often")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("open: want one file")
	}
	ends := map[string]int{}
	for range *count {
		ends[openOnce(flags.Arg(0))]++
	}
	return printJSON(ends)
}

func openOnce(path string) string {
	file, err := os.Open(path)
	var errno syscall.Errno
	switch {
	case err == nil:
		file.Close()
		return "ok"
	case errors.As(err, &errno):
		return errno.Error()
	}
	return err.Error()
}
