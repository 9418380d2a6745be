package main

import (
	"bytes"
	"io"
	"sync"
)

// results are those of the stages that have ended, of both lanes.
type results struct {
	mu   sync.Mutex
	list []result
}

func (r *results) add(one result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, one)
}

func (r *results) all() []result {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[:len(r.list):len(r.list)]
}

// prefixer marks each line of the second lane. Half a line waits for its end, so that
// lines of the two lanes do not mix.
type prefixer struct {
	out    io.Writer
	prefix string

	mu   sync.Mutex
	half []byte
}

func (p *prefixer) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.half = append(p.half, text...)
	end := bytes.LastIndexByte(p.half, '\n') + 1
	var whole []byte
	for line := range bytes.Lines(p.half[:end]) {
		whole = append(append(whole, p.prefix...), line...)
	}
	p.half = append([]byte(nil), p.half[end:]...)
	if len(whole) > 0 {
		if _, err := p.out.Write(whole); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
