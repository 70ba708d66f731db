package offload

import (
	"fmt"
	"hash/crc32"
	"io"
	"sync"
	"time"
)

// Move is what a Transfer did.
type Move uint8

const (
	Read  Move = iota // a block came from a file
	Write             // a block went to a file
	Wait              // the session's goroutine waited for one of them
)

var moveNames = [...]string{"read", "write", "wait"}

// String returns the name in lower case.
func (m Move) String() string {
	if int(m) >= len(moveNames) {
		return fmt.Sprintf("move(%d)", uint8(m))
	}
	return moveNames[m]
}

// Transfer is one thing that took time.
type Transfer struct {
	Move       Move
	Role       Role
	Bytes      int64
	Start, End time.Time
}

// job is the transfer of one block. The goroutine that runs it touches nothing else.
type job struct {
	write      bool
	file       File
	path       string
	off        int64
	mem        []byte // whole pages
	n          int64  // of which these are the data; the rest is zero
	sum        uint32 // of mem: found in a write, wanted in a read
	err        error
	start, end time.Time
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (j *job) run() {
	j.start = time.Now()
	if j.write {
		j.err = j.put()
	} else {
		j.err = j.get()
	}
	j.end = time.Now()
}

func (j *job) put() error {
	clear(j.mem[j.n:])
	j.sum = crc32.Checksum(j.mem, castagnoli)
	n, err := j.file.WriteAt(j.mem, j.off)
	if err == nil && n < len(j.mem) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("offload: write %d bytes at %d of %s: %w", len(j.mem), j.off, j.path, err)
	}
	return nil
}

func (j *job) get() error {
	n, err := j.file.ReadAt(j.mem, j.off)
	if n == len(j.mem) {
		err = nil
	} else if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("offload: read %d bytes at %d of %s: %w after %d", len(j.mem), j.off, j.path, err, n)
	}
	if sum := crc32.Checksum(j.mem, castagnoli); sum != j.sum {
		return fmt.Errorf("offload: read %d bytes at %d of %s: checksum %08x: want %08x as written: the file was changed, or the disk is failing", len(j.mem), j.off, j.path, sum, j.sum)
	}
	return nil
}

// movers are the goroutines that run jobs.
type movers struct {
	jobs chan *slot
	wg   sync.WaitGroup
}

// startMovers starts n goroutines; at most queue jobs are under way at a time.
func startMovers(n, queue int) *movers {
	m := &movers{jobs: make(chan *slot, queue)}
	for range n {
		m.wg.Go(func() {
			for sl := range m.jobs {
				sl.run()
				sl.done <- struct{}{}
			}
		})
	}
	return m
}

// stop ends the goroutines when the jobs that were given are done.
func (m *movers) stop() {
	close(m.jobs)
	m.wg.Wait()
}
