package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// drain is how long requests may take to finish after SIGTERM.
const drain = 5 * time.Second

// serve answers until ctx ends, or for ever with --ignore-sigterm.
func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	httpAddress := flags.String("http", ":8080", "`address` of HTTP: /healthz, /, /stats")
	echoAddress := flags.String("echo", ":9090", "`address` of the TCP and UDP echo")
	file := flags.String("write", "", "`file` to write to all the time; empty for none")
	block := flags.Int("write-block", 64<<10, "`bytes` of one write, a multiple of 4096")
	direct := flags.Bool("write-direct", true, "write past the page cache where the file system can")
	deaf := flags.Bool("ignore-sigterm", false, "do not end on SIGTERM")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
		ctx = context.WithoutCancel(ctx)
	}
	if err := echo(*echoAddress); err != nil {
		return err
	}
	var disk *writer
	if *file != "" {
		var err error
		if disk, err = startWriter(*file, *block, *direct); err != nil {
			return err
		}
	}
	return serveHTTP(ctx, *httpAddress, disk)
}

func serveHTTP(ctx context.Context, address string, disk *writer) error {
	name, _ := os.Hostname() // only decoration
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s answers %s\n", name, r.RemoteAddr)
	})
	mux.HandleFunc("/stats", func(w http.ResponseWriter, _ *http.Request) {
		stats := map[string]any{"host": name, "upSeconds": time.Since(began).Seconds()}
		if disk != nil {
			stats["write"] = disk.stats()
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(stats) // the client went away
	})
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	fmt.Printf("target %s serves HTTP at %s\n", name, address)
	select {
	case err := <-failed:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	fmt.Println("target ends")
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}

// echo sends back what comes to an address by TCP and by UDP, until the process
// ends.
func echo(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("echo by TCP: %w", err)
	}
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return fmt.Errorf("echo by UDP: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn) // ends with the client
			}()
		}
	}()
	go func() {
		buffer := make([]byte, 64<<10)
		for {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo(buffer[:n], from) // a lost answer is a lost answer
		}
	}()
	return nil
}
