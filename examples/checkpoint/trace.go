package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/nn"
)

// narrator tells what happens in one step.
type narrator struct {
	out  io.Writer
	w    *watermark
	runs []int // of each block
}

// narrate runs one step of a GPT of that depth and tells, line by line, when which block runs and what is alive then.
func narrate(ctx context.Context, c settings, depth int, out io.Writer) (err error) {
	if c.Row == "" {
		c.Row = "recursive"
	}
	c.Depth, c.Steps = depth, 1
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if t.text, err = gosource.Load(ctx, t.Data, 1<<20); err != nil {
		return err
	}
	if err := t.build(ctx); err != nil {
		return err
	}
	schedule, err := t.choose()
	if err != nil {
		return err
	}
	batch, err := t.batches.Next()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d blocks, %s %s\n\nactivations  what happens\n", depth, c.Row, schedule)
	n := &narrator{out: out, w: &watermark{alive: map[uint64]int64{}}, runs: make([]int, depth)}
	t.model.Wrap = n.block
	t.dev.SetTrace(n.w.event)
	err = t.sess.Step(ctx, func(s *autograd.Scope) error {
		loss := t.model.Loss(s, s.Input(batch.X), s.Input(batch.Y))
		n.say(0, "the loss is %.4f; backward begins", loss.Item())
		loss.Backward(s)
		t.opt.ZeroGrad(s)
		return nil
	})
	t.dev.SetTrace(nil)
	if err != nil {
		return err
	}
	total := 0
	for _, k := range n.runs {
		total += k
	}
	fmt.Fprintf(out, "\n%d blocks ran %d times; at most %s of activations were alive\n", depth, total, row.Bytes(n.w.most))
	return nil
}

// say prints a line, moved to the right by how many second runs are on within each other.
func (n *narrator) say(depth int, format string, args ...any) {
	fmt.Fprintf(n.out, "%11s  %s%s\n", row.Bytes(n.w.live), strings.Repeat("    ", depth), fmt.Sprintf(format, args...))
}

// block is the model's Wrap: it stands around each block, in forward and in second runs.
func (n *narrator) block(s *autograd.Scope, i int, x *autograd.Value, block nn.Forward) *autograd.Value {
	n.runs[i]++
	again := strings.Count(s.Path(), "recompute")
	if again == 0 {
		n.say(0, "forward: block %d", i)
	} else {
		n.say(again, "block %d runs again", i)
	}
	y := block(s, x)
	if again == 0 {
		y.OnGrad(func(*autograd.Scope, *autograd.Value) *autograd.Value {
			n.say(0, "backward: the gradient of block %d's result is there", i)
			return nil
		})
	}
	return y
}
