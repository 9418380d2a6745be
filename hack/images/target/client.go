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
	"sync"
	"time"
)

// pinging is what to send, and the result of one socket or of several.
type pinging struct {
	address           string
	count             int
	timeout, interval time.Duration

	sent, received int
	total          time.Duration // of the answers
}

// ping sends numbered datagrams to a UDP echo and counts the answers. Lost ones
// cost their time-out each, so that many are sent by several sockets at once.
func ping(ctx context.Context, args []string) error {
	var p pinging
	flags := flag.NewFlagSet("ping", flag.ContinueOnError)
	flags.StringVar(&p.address, "udp", "", "`host:port` of a UDP echo")
	flags.IntVar(&p.count, "count", 10, "datagrams to send by each socket")
	flags.DurationVar(&p.timeout, "timeout", time.Second, "how long to wait for each answer")
	flags.DurationVar(&p.interval, "interval", 0, "pause between datagrams")
	sockets := flags.Int("sockets", 1, "sockets that send at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if p.address == "" {
		return errors.New("ping: want --udp host:port")
	}
	parts, errs := make([]pinging, *sockets), make([]error, *sockets)
	var all sync.WaitGroup
	for i := range parts {
		parts[i] = p
		all.Go(func() { errs[i] = parts[i].run(ctx) })
	}
	all.Wait()
	for _, part := range parts {
		p.sent, p.received, p.total = p.sent+part.sent, p.received+part.received, p.total+part.total
	}
	mean := 0.0
	if p.received > 0 {
		mean = float64(p.total.Microseconds()) / 1000 / float64(p.received)
	}
	return errors.Join(append(errs, printJSON(map[string]any{"sent": p.sent, "received": p.received, "meanMilliseconds": mean}))...)
}

func (p *pinging) run(ctx context.Context) error {
	conn, err := net.Dial("udp", p.address)
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	for number := range p.count {
		began := time.Now()
		p.sent++
		if answered(conn, fmt.Sprintf("squall %d", number), p.timeout) {
			p.received++
			p.total += time.Since(began)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.interval):
		}
	}
	return nil
}

// answered sends one datagram and waits for the same to come back; late answers
// to earlier ones do not count.
func answered(conn net.Conn, message string, timeout time.Duration) bool {
	deadline := time.Now().Add(timeout)
	if _, err := conn.Write([]byte(message)); err != nil {
		time.Sleep(time.Until(deadline)) // refused: the answer to an earlier one
		return false
	}
	_ = conn.SetReadDeadline(deadline) // cannot fail on an open socket
	buffer := make([]byte, 1500)
	for {
		n, err := conn.Read(buffer)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return false
		}
		if err != nil {
			time.Sleep(time.Until(deadline))
			return false
		}
		if string(buffer[:n]) == message {
			return true
		}
	}
}

// get fetches a URL once. An error is part of the result; the program then ends
// with 1.
func get(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 5*time.Second, "for the whole request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("get: want one URL")
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, flags.Arg(0), nil)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	began := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		_ = printJSON(map[string]any{"error": err.Error(), "milliseconds": milliseconds(began)})
		return fmt.Errorf("get: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return printJSON(map[string]any{"status": response.StatusCode, "body": string(body), "milliseconds": milliseconds(began)})
}

// lookup asks for the addresses of a name, as a program of the target would. That
// nothing is found is an answer.
func lookup(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("lookup", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 5*time.Second, "how long to wait in all")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("lookup: want one name")
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	addresses, err := (&net.Resolver{PreferGo: true}).LookupHost(ctx, flags.Arg(0))
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	return printJSON(map[string]any{"addresses": addresses, "error": failure})
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

func printJSON(value any) error { return json.NewEncoder(os.Stdout).Encode(value) }
