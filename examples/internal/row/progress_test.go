package row

import (
	"bytes"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressPlain(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 2)
	p.Start("baseline", 10)
	p.Step(1, .5)
	p.said = p.said.Add(-plainEvery)
	p.Step(2, .25)
	p.Step(3, .125)
	p.Done(rows()[0])
	p.Start("dry", 0)
	p.Print([]byte("by the way\n"))
	p.Done(rows()[2])
	require.Equal(t, `[1/2] baseline: step 2 of 10, loss 0.2500
[1/2] baseline: 10.00 MiB peak, 12.35 ms a step, loss 0.3123
by the way
[2/2] dry: 1.46 MiB peak
`, b.String())
}

func TestProgressTerminal(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, 1)
	p.terminal = true
	p.Start("baseline", 4)
	for i := range 4 {
		p.Step(i+1, .5)
		time.Sleep(110 * time.Millisecond) // the bar's own rate
	}
	p.Done(rows()[0])
	require.Contains(t, b.String(), "[1/1] baseline, loss 0.5000")
	require.Contains(t, b.String(), "(2/4)")
	require.Contains(t, b.String(), "\r\x1b[K[1/1] baseline: 10.00 MiB peak, 12.35 ms a step, loss 0.3123\n")
}

func TestProgressNil(t *testing.T) {
	var p *Progress
	p.Start("x", 1)
	p.Step(1, 0)
	p.of(2)
	p.Print(nil)
	p.Done(Row{})
}

// What a child's progress writes, the relay understands, however the pipe cuts it.
func TestRelay(t *testing.T) {
	var sent, shown bytes.Buffer
	child := &Progress{w: &sent, child: true}
	child.Start("x", 3)
	child.Step(1, .5) // too early after the start to be told
	child.said = child.said.Add(-tellEvery)
	child.Step(2, math.NaN())
	fmt.Fprint(&sent, "a line\nhalf ")
	child.w = &sent
	fmt.Fprint(&sent, "a line\n")
	child.Step(3, .25)
	fmt.Fprintf(&sent, errFormat, `"went \"wrong\""`)
	fmt.Fprint(&sent, "the end")

	p := NewProgress(&shown, 1)
	p.Start("x", 0)
	p.said = p.said.Add(-plainEvery)
	r := &relay{p: p, through: p.Print}
	for _, c := range sent.Bytes() {
		n, err := r.Write([]byte{c})
		require.NoError(t, err)
		require.Equal(t, 1, n)
	}
	r.close()
	require.Equal(t, "[1/1] x: step 2 of 3, loss NaN\na line\nhalf a line\nthe end\n", shown.String())
	require.Equal(t, `went "wrong"`, r.err)
	require.Equal(t, "; its last lines:\na line\nhalf a line\nthe end", r.lastLines())
	for range 1000 {
		r.take([]byte("many lines\n"))
	}
	require.Len(t, r.tail, tailBytes)
}
