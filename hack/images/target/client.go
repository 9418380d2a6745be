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
	"time"
)

// ping sends numbered datagrams to a UDP echo and counts the answers.
func ping(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ping", flag.ContinueOnError)
	address := flags.String("udp", "", "`host:port` of a UDP echo")
	count := flags.Int("count", 10, "datagrams to send")
	timeout := flags.Duration("timeout", time.Second, "how long to wait for each answer")
	interval := flags.Duration("interval", 0, "pause between datagrams")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *address == "" {
		return errors.New("ping: want --udp host:port")
	}
	conn, err := net.Dial("udp", *address)
	if err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	result := struct {
		Sent     int     `json:"sent"`
		Received int     `json:"received"`
		MeanMS   float64 `json:"meanMilliseconds"`
	}{}
	var total time.Duration
	for number := range *count {
		began := time.Now()
		result.Sent++
		if answered(conn, fmt.Sprintf("squall %d", number), *timeout) {
			result.Received++
			total += time.Since(began)
		}
		select {
		case <-ctx.Done():
			return printJSON(result)
		case <-time.After(*interval):
		}
	}
	if result.Received > 0 {
		result.MeanMS = float64(total.Microseconds()) / 1000 / float64(result.Received)
	}
	return printJSON(result)
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

// get fetches a URL once. What went wrong is part of the result, and then the
// program ends with 1.
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

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

func printJSON(value any) error { return json.NewEncoder(os.Stdout).Encode(value) }
