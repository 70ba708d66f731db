package row

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
)

// plainEvery is the time between two lines about one row where there is no terminal.
const plainEvery = 5 * time.Second

// Progress says how far a comparison is: with a bar on a terminal, with plain lines elsewhere. A nil Progress says
// nothing. Its methods may be called by several goroutines.
type Progress struct {
	mu       sync.Mutex
	w        io.Writer
	terminal bool // w is one that can move its cursor
	child    bool // w is a pipe to the parent's relay

	rows, row int // how many there are, and the number of the current one, from 1
	name      string
	steps     int
	said      time.Time // of the last line or, in a child, the last message
	bar       *progressbar.ProgressBar
}

// NewProgress returns a progress over the given number of rows. Examples give os.Stderr, for standard output belongs to
// the rows.
func NewProgress(w io.Writer, rows int) *Progress {
	return &Progress{w: w, rows: rows, terminal: isTerminal(w)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Start begins the next row, of so many steps; 0 if that is not known yet.
func (p *Progress) Start(name string, steps int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.row++
	p.name, p.steps, p.said, p.bar = name, steps, time.Now(), nil
	if p.terminal {
		fmt.Fprintf(p.w, "%s ...\r", p.head())
	}
}

// head is "[2/7] name".
func (p *Progress) head() string { return fmt.Sprintf("[%d/%d] %s", p.row, p.rows, p.name) }

// Step says that the row has done so many of its steps, and the loss of the last.
func (p *Progress) Step(done int, loss float64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.child:
		p.tell(done, loss)
	case p.terminal:
		p.draw(done, loss)
	case time.Since(p.said) >= plainEvery:
		p.said = time.Now()
		fmt.Fprintf(p.w, "%s: step %d of %d, loss %.4f\n", p.head(), done, p.steps, loss)
	}
}

func (p *Progress) draw(done int, loss float64) {
	if p.bar == nil || p.bar.GetMax() != p.steps {
		p.bar = progressbar.NewOptions(max(p.steps, 1), progressbar.OptionSetWriter(p.w), progressbar.OptionSetWidth(24),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetElapsedTime(false))
	}
	p.bar.Describe(fmt.Sprintf("%s, loss %.4f", p.head(), loss))
	_ = p.bar.Set(min(done, p.bar.GetMax())) // an error of a progress bar is nobody's
}

// Done ends the row with a line of its figures. In a child it does nothing: the parent has the line.
func (p *Progress) Done(r Row) {
	if p == nil || p.child {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	parts := []string{Bytes(r.Peak()) + " peak"}
	if _, ok := r.StepMS.Value(); ok {
		parts = append(parts, r.StepMS.Format(2, " ms a step"))
	}
	if _, ok := r.Loss.Value(); ok {
		parts = append(parts, "loss "+r.Loss.Format(4, ""))
	}
	fmt.Fprintf(p.w, "%s: %s\n", p.head(), strings.Join(parts, ", "))
}

// Print writes b, whole lines, without tearing the bar. Call it for whatever else goes to the terminal.
func (p *Progress) Print(b []byte) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	_, _ = p.w.Write(b)
}

// clear takes the bar off its line.
func (p *Progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
