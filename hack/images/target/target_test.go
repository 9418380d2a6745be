package main

import (
	"encoding/json"
	"net"
	"os"
	"testing"
	"time"
)

func TestWriterAveragesFullSeconds(t *testing.T) {
	now := time.Now().Unix()
	tests := []struct {
		name   string
		second int64 // of the last write
		ring   map[int64]int64
		want   int64 // bytes per second
	}{
		{"nothing written", 0, nil, 0},
		{"two full seconds", now - 1, map[int64]int64{now - 2: 100, now - 1: 300}, 200},
		{"stalled since long", now - 60, map[int64]int64{now - 61: 100, now - 60: 300}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := &writer{second: test.second}
			for second, bytes := range test.ring {
				w.ring[second%windowSeconds] = bytes
			}
			w.advance(now)
			if got := w.stats()["bytesPerSecond"].(int64); got != test.want && time.Now().Unix() == now {
				t.Errorf("bytesPerSecond = %d, want %d", got, test.want)
			}
		})
	}
}

func TestWriterWrites(t *testing.T) {
	dir := t.TempDir() + "/later"
	path := dir + "/file"
	const block = 64 << 10
	began := time.Now()
	w, err := startWriter(path, block, true)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); w.stats()["error"] == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not report that it cannot open its file")
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); w.stats()["bytes"].(int64) < 10*block; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("little written: %v", w.stats())
		}
	}
	if written, most := w.stats()["bytes"].(int64), int64(time.Since(began).Seconds()*mostPerSecond)+block; written > most {
		t.Errorf("%d bytes written, want at most %d: others write to the disk, too", written, most)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		t.Errorf("the file is empty or missing: %v", err)
	}
	if _, err := startWriter(path, 1000, true); err == nil {
		t.Error("startWriter took a block that O_DIRECT cannot write")
	}
}

func TestOpenCountsHowItEnds(t *testing.T) {
	file := t.TempDir() + "/file"
	if got := openOnce(file); got != "no such file or directory" {
		t.Errorf("openOnce of nothing = %q, want that there is none", got)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := openOnce(file); got != "ok" {
		t.Errorf("openOnce = %q, want ok", got)
	}
}

func TestPingCountsAnswers(t *testing.T) {
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close()
	go func() { // answers every other datagram
		buffer := make([]byte, 1500)
		for n := 0; ; n++ {
			size, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if n%2 == 0 {
				_, _ = packets.WriteTo(buffer[:size], from)
			}
		}
	}()
	out := os.Stdout
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = w
	err = ping(t.Context(), []string{"--udp", packets.LocalAddr().String(), "--count", "4", "--timeout", "200ms"})
	os.Stdout = out
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Sent, Received int }
	if err := json.NewDecoder(r).Decode(&result); err != nil {
		t.Fatal(err)
	}
	if result.Sent != 4 || result.Received != 2 {
		t.Errorf("ping counted %+v, want 4 sent and 2 received", result)
	}
}
