// Command devcluster runs a real Kubernetes cluster and Temporal on one Linux
// machine, for development: every node has namespaces of its own, and nothing
// of the host is changed but some cgroup directories and one network link. See
// README.md in the directory above.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/squall-chaos/squall/hack/machine"
	"github.com/squall-chaos/squall/hack/supervise"
)

const usage = `usage: devcluster COMMAND [FLAGS]

  up                 start the cluster, after building what is missing
  down               end it; what it stored stays, unless --wipe
  status             print what runs; exit code 1 if it does not run
  images ARCHIVE...  load docker-archive files into every node
  node ACTION N      crash, freeze or thaw node N; cut it off the network, or join
                     it again; pid: print its first process
  kill PROGRAM [N]   kill a program of the control plane, or of node N
  temporal ACTION    crash, freeze or thaw Temporal
  build              only build the programs

devcluster COMMAND --help lists the flags of a command.
`

// errUsage means that the command line was wrong and the user has read why.
var errUsage = errors.New("usage")

// commands are what users type. The others below are how the program starts
// itself.
var commands = map[string]func(context.Context, []string) error{
	"up":       up,
	"down":     down,
	"status":   status,
	"images":   images,
	"node":     node,
	"kill":     kill,
	"temporal": temporal,
	"build":    build,
}

func main() {
	if machine.IsGuest() {
		fmt.Fprintln(os.Stderr, "devcluster:", machine.Boot())
		os.Exit(1) // at which the kernel panics
	}
	if len(os.Args) < 2 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	name, args := os.Args[1], os.Args[2:]
	if err := internal(name, args); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
	if name == "help" || name == "-h" || name == "--help" {
		fmt.Print(usage)
		return
	}
	run, ok := commands[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "devcluster: unknown command %q\n%s", name, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, args)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

// internal does what the supervisor and the machines start this program for. It
// returns nil if name is none of that.
func internal(name string, args []string) error {
	switch name {
	case superviseCommand:
		if err := superviseMain(args); err != nil {
			return err
		}
		os.Exit(0)
	case supervise.EnterCommand:
		return machine.Enter(os.NewFile(3, "spec"), supervise.RunCommand)
	case supervise.RunCommand:
		return machine.Run()
	case supervise.JoinCommand:
		return supervise.Join(args[0], args[1:])
	}
	return nil
}

// flagSet makes the flags of a command with --dir, which all have. dir is
// filled in by parse.
func flagSet(name, arguments string) (flags *flag.FlagSet, dir *string) {
	flags = flag.NewFlagSet("devcluster "+name, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "usage: devcluster %s [FLAGS] %s\n", name, arguments)
		flags.PrintDefaults()
	}
	return flags, flags.String("dir", "", "`directory` of the cluster (default: .dev beside the hack module)")
}

// parse reads the flags, which may stand between arguments too, and makes the
// directory absolute. least and most bound the number of arguments.
func parse(flags *flag.FlagSet, args []string, least, most int) ([]string, error) {
	var rest []string
	for {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, errUsage
		}
		if flags.NArg() == 0 {
			break
		}
		rest = append(rest, flags.Arg(0))
		args = flags.Args()[1:]
	}
	if len(rest) < least || len(rest) > most {
		flags.Usage()
		return nil, errUsage
	}
	dir := flags.Lookup("dir").Value
	if dir.String() == "" {
		hack, err := hackDir()
		if err != nil {
			return nil, fmt.Errorf("%w, or name the cluster by --dir", err)
		}
		_ = dir.Set(filepath.Join(filepath.Dir(hack), ".dev")) // a string flag takes everything
	}
	absolute, err := filepath.Abs(dir.String())
	if err != nil {
		return nil, fmt.Errorf("directory of the cluster: %w", err)
	}
	_ = dir.Set(absolute)
	return rest, nil
}

// needHost returns an error unless this is Linux and the user is root.
func needHost() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("this is %s: the cluster needs Linux; use a virtual machine", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return errors.New("not root: namespaces and cgroups need it; use sudo -E")
	}
	return nil
}
