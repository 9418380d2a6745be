package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The tests record this program itself, which then is the program to record.
func TestMain(m *testing.M) {
	switch os.Getenv("RECORDING_SHOWS") {
	case "progress":
		fmt.Print("\x1b[32mready\x1b[0m <&>\n")
		for i := range 3 {
			fmt.Printf("\r\x1b[Kwaits %d s", i)
			time.Sleep(2 * shortestFrame)
		}
		time.Sleep(2 * longestPause)
		fmt.Print("\r\x1b[Kdone\n")
		return
	case "failure":
		fmt.Print("no cluster\n")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func recorded(t *testing.T, shows string) (*film, error) {
	t.Helper()
	command := exec.Command("/proc/self/exe")
	t.Setenv("RECORDING_SHOWS", shows)
	return record(command, "squall demo", 40, 4)
}

func TestAPictureShowsWhatTheTerminalShowed(t *testing.T) {
	f, err := recorded(t, "progress")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range f.shots() {
		text := ""
		for _, p := range s.line {
			text += p.text
		}
		got = append(got, fmt.Sprintf("%d %s, stays %t", s.row, text, s.to == 0))
	}
	want := []string{
		"0 $ squall demo, stays true", "1 ready <&>, stays true",
		"2 waits 0 s, stays false", "2 waits 1 s, stays false", "2 waits 2 s, stays false", "2 done, stays true",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("shots:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if until := f.length() - lastFrame; until > 3*shortestFrame*2+2*longestPause || f.took < 2*longestPause {
		t.Errorf("the end is shown after %s of a run of %s, want the pause shortened", until, f.took)
	}
	picture := f.svg()
	if !strings.Contains(string(picture), `<tspan fill="#`) || !strings.Contains(string(picture), "&lt;&amp;&gt;") {
		t.Errorf("no colour, or letters that are not escaped, in:\n%s", picture)
	}
	for document := xml.NewDecoder(strings.NewReader(string(picture))); ; {
		if _, err := document.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the picture is no XML: %v", err)
		}
	}
}

func TestAProgramThatFailsIsNotDrawn(t *testing.T) {
	if _, err := recorded(t, "failure"); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no cluster") {
		t.Errorf("error %v, want the exit status and what it showed", err)
	}
}
