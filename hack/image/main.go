// Command image writes a container image as a docker-archive file from static
// programs, without a container engine and without a registry:
//
//	go run ./image -o worker.tar -name squall.local/worker:dev -entrypoint /worker bin/worker=/worker
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/squall-chaos/squall/hack/archive"
)

func main() {
	out, image, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(2)
	}
	if err := write(out, image); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func parse(args []string) (out string, image archive.Image, err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: image -o FILE -name NAME:TAG -entrypoint PROGRAM[,ARGUMENT...] [-env NAME=VALUE]... [-user UID[:GID]] FILE=PATH...")
		flags.PrintDefaults()
	}
	var entrypoint string
	flags.StringVar(&out, "o", "", "`file` to write")
	flags.StringVar(&image.Name, "name", "", "`name` of the image with its tag, such as squall.local/worker:dev")
	flags.StringVar(&entrypoint, "entrypoint", "", "`program` in the image and its first arguments, with commas between")
	flags.StringVar(&image.User, "user", "", "numeric `uid[:gid]`; empty is root")
	flags.Func("env", "`NAME=value` to set; may be given again", func(value string) error {
		image.Env = append(image.Env, value)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return "", image, err
	}
	for _, arg := range flags.Args() {
		source, path, ok := strings.Cut(arg, "=")
		if !ok || source == "" || path == "" {
			return "", image, fmt.Errorf("argument %q: want FILE=PATH", arg)
		}
		image.Files = append(image.Files, archive.File{Source: source, Path: path})
	}
	if out == "" || image.Name == "" || entrypoint == "" || len(image.Files) == 0 {
		return "", image, errors.New("want -o, -name, -entrypoint and at least one FILE=PATH; see --help")
	}
	image.Entrypoint = strings.Split(entrypoint, ",")
	return out, image, nil
}

// write replaces the file as a whole.
func write(out string, image archive.Image) error {
	f, err := os.Create(out + ".new")
	if err != nil {
		return err
	}
	if err := errors.Join(archive.Write(f, image), f.Close()); err != nil {
		os.Remove(f.Name())
		return err
	}
	return os.Rename(f.Name(), out)
}
