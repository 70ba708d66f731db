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
	Read  Move = iota // a block, or small ones that lie side by side, came from a file
	Write             // the same went to a file
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

// job is a transfer. The goroutine that runs it touches nothing else.
type job struct {
	write      bool
	file       File
	path       string
	role       Role
	off        int64
	mem        []byte // whole pages
	pieces     []piece
	start, end time.Time
}

// piece is a block of an extent in a job. It has whole pages, of which what is beyond n is zero.
type piece struct {
	own   *extent // nil: it is wanted no more
	index int     // which block of own
	at, n int64   // bytes of the job's memory
	sum   uint32  // of the pages: found in a write, wanted in a read
	err   error
}

// size is the bytes of the pieces' pages.
func (j *job) size() int64 {
	if len(j.pieces) == 0 {
		return 0
	}
	last := &j.pieces[len(j.pieces)-1]
	return last.at + pages(last.n)
}

// bytes is the bytes of the pieces.
func (j *job) bytes() (n int64) {
	for i := range j.pieces {
		n += j.pieces[i].n
	}
	return n
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (j *job) run() {
	j.start = time.Now()
	var err error
	if j.write {
		err = j.put()
	} else {
		err = j.get()
	}
	for i := range j.pieces {
		if p := &j.pieces[i]; err != nil {
			p.err = err
		} else if !j.write {
			p.err = j.verify(p)
		}
	}
	j.end = time.Now()
}

func (j *job) put() error {
	for i := range j.pieces {
		p := &j.pieces[i]
		mem := j.mem[p.at : p.at+pages(p.n)]
		clear(mem[p.n:])
		p.sum = crc32.Checksum(mem, castagnoli)
	}
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
	return nil
}

// verify compares what was read with what was written.
func (j *job) verify(p *piece) error {
	mem := j.mem[p.at : p.at+pages(p.n)]
	if sum := crc32.Checksum(mem, castagnoli); sum != p.sum {
		return fmt.Errorf("offload: read %d bytes at %d of %s: checksum %08x: want %08x as written: the file was changed, or the disk is failing",
			len(mem), j.off+p.at, j.path, sum, p.sum)
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
