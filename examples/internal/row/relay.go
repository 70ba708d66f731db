package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// A child talks to its parent on standard error, in lines that begin with a character that no text has (ASCII 30, the
// record separator). All other lines pass through.
const (
	recordMark = "\x1erow "
	stepFormat = recordMark + "step %d %d %g\n" // steps done, of how many, loss
	errFormat  = recordMark + "error %s\n"      // the error as a JSON string
)

// tellEvery is the time between two messages about steps.
const tellEvery = 100 * time.Millisecond

// tailBytes of what a child wrote last stand in the error about it.
const tailBytes = 2 << 10

// tell sends a step to the parent.
func (p *Progress) tell(done int, loss float64) {
	if done < p.steps && time.Since(p.said) < tellEvery {
		return
	}
	p.said = time.Now()
	fmt.Fprintf(p.w, stepFormat, done, p.steps, loss)
}

// relay is the parent's end of a child's standard error.
type relay struct {
	p       *Progress
	through func([]byte) // takes what is no message, in whole lines
	line    []byte       // the begin of a line whose end did not come yet
	tail    []byte       // the last bytes that passed through
	err     string       // the error that the child reported
}

// Write takes the next part of the stream. It never fails.
func (r *relay) Write(b []byte) (int, error) {
	r.line = append(r.line, b...)
	for {
		end := bytes.IndexByte(r.line, '\n') + 1
		if end == 0 {
			return len(b), nil
		}
		r.take(r.line[:end])
		r.line = r.line[end:]
	}
}

// close takes what the child left without an end of line.
func (r *relay) close() {
	if len(r.line) > 0 {
		r.take(append(r.line, '\n'))
		r.line = nil
	}
}

func (r *relay) take(line []byte) {
	if !bytes.HasPrefix(line, []byte(recordMark)) {
		r.through(line)
		r.tail = append(r.tail, line...)
		r.tail = r.tail[max(0, len(r.tail)-tailBytes):]
		return
	}
	var done, steps int
	var loss float64
	if n, _ := fmt.Sscanf(string(line), stepFormat, &done, &steps, &loss); n == 3 {
		r.p.of(steps)
		r.p.Step(done, loss)
	} else if text, ok := strings.CutPrefix(string(line), recordMark+"error "); ok {
		_ = json.Unmarshal([]byte(text), &r.err)
	}
}

// of sets how many steps the row has.
func (p *Progress) of(steps int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = steps
}

// lastLines is what the child wrote last, to stand behind the error.
func (r *relay) lastLines() string {
	if tail := strings.TrimSpace(string(r.tail)); tail != "" {
		return "; its last lines:\n" + tail
	}
	return ""
}
