// Command temporal is the development cluster's Temporal: server, SQLite store
// and web interface in one process. It creates the namespace "default" with
// Squall's search attributes and keeps everything in one file, so a killed
// process continues where it was. It is not meant for production.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// Config is the parsed command line.
type Config struct {
	Address   string        // address of the gRPC frontend, an IP address and a port
	UIAddress string        // address of the web interface; empty: no web interface
	Database  string        // file of the SQLite store; made if it is not there
	Namespace string        // namespace that is made on the first start
	Retention time.Duration // how long closed workflows stay, of a namespace made now
	LogLevel  string        // debug, info, warn or error
}

func main() {
	cfg, err := parse(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(cfg); err != nil {
		fmt.Fprintln(os.Stderr, "temporal:", err)
		os.Exit(1)
	}
}

// parse reads the command line. Before it returns an error it has printed the
// cause.
func parse(args []string) (Config, error) {
	var cfg Config
	flags := flag.NewFlagSet("temporal", flag.ContinueOnError)
	flags.StringVar(&cfg.Address, "address", "127.0.0.1:7233", "`IP:port` of the gRPC frontend")
	flags.StringVar(&cfg.UIAddress, "ui-address", "127.0.0.1:8233", "`IP:port` of the web interface, empty for none")
	flags.StringVar(&cfg.Database, "db", "temporal.db", "`file` of the SQLite store")
	flags.StringVar(&cfg.Namespace, "namespace", "default", "`name` of the namespace to make on the first start")
	flags.DurationVar(&cfg.Retention, "retention", 7*24*time.Hour, "how long closed workflows are kept")
	flags.StringVar(&cfg.LogLevel, "log-level", "warn", "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		return cfg, err
	}
	if flags.NArg() > 0 {
		err := fmt.Errorf("unexpected argument %q", flags.Arg(0))
		fmt.Fprintln(os.Stderr, "temporal:", err)
		flags.Usage()
		return cfg, err
	}
	return cfg, nil
}

func run(cfg Config) error {
	if err := prepareStore(cfg); err != nil {
		return err
	}
	server, err := newServer(cfg)
	if err != nil {
		return err
	}
	if cfg.UIAddress != "" {
		ui, err := newUI(cfg)
		if err != nil {
			return err
		}
		go func() {
			if err := ui.Start(); err != nil {
				fmt.Fprintln(os.Stderr, "temporal: web interface:", err)
			}
		}()
		defer ui.Stop()
	}
	fmt.Printf("temporal: frontend %s, web interface %s, store %s\n", cfg.Address, cfg.UIAddress, cfg.Database)
	if err := server.Start(); err != nil {
		return fmt.Errorf("run the server at %s: %w", cfg.Address, err)
	}
	return nil
}

// splitAddress takes an IP:port apart.
func splitAddress(address string) (ip string, port int, err error) {
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, fmt.Errorf("address %q: %w", address, err)
	}
	if net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("address %q: want an IP address before the colon", address)
	}
	port, err = strconv.Atoi(service)
	if err != nil || port < 1 || port > 65535 {
		return "", 0, fmt.Errorf("address %q: want a port of 1 to 65535 after the colon", address)
	}
	return host, port, nil
}
