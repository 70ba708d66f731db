package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/tensor"
)

// scales are those that an update of a row with a scaler is tried under: none, the usual one, one that is too large.
var scales = []float64{1, 1 << 16, 1 << 40}

// narrate tells one update op by op. With a scaler it is tried under three scales, each time from the start.
func narrate(ctx context.Context, c settings, out io.Writer) error {
	if c.Row == "" {
		c.Row = "fp16-autocast"
	}
	w, err := row.Find("amp: row", c.Row, ways)
	if err != nil {
		return err
	}
	tried := scales
	if !w.scale {
		tried = scales[:1]
	}
	fmt.Fprintf(out, "One update of %s.\n\nForward:\n\n", c.Row)
	var tries []try
	for i, scale := range tried {
		told := out
		if i > 0 {
			told = io.Discard
		}
		c.Scale = scale
		got, err := attempt(ctx, c, told)
		if err != nil {
			return err
		}
		tries = append(tries, got)
	}
	fmt.Fprintf(out, "\nBackward: the gradient of each product's result, for the first block and what is outside of blocks.\n\n")
	tellGradients(out, tries)
	if w.scale {
		fmt.Fprintln(out)
	}
	for _, t := range tries {
		fmt.Fprint(out, t.verdict)
	}
	return nil
}

// try is what one update came to.
type try struct {
	scale   float64
	grads   []gradient
	verdict string // of the scaler
}

// attempt runs the update once and tells of its forward pass.
func attempt(ctx context.Context, c settings, out io.Writer) (got try, err error) {
	t := &trainer{settings: c, factor: 1}
	defer t.ending.Run(&err)
	if err := t.build(ctx); err != nil {
		return got, err
	}
	if t.batch, err = t.epoch.Next(); err != nil {
		return got, err
	}
	n := &narrator{out: out}
	t.sess.SetTrace(n.see)
	err = t.sess.Step(ctx, t.update)
	n.end()
	if err != nil {
		return got, err
	}
	got = try{scale: c.Scale, grads: n.grads}
	if t.scaler != nil {
		got.verdict = t.verdict(c.Scale)
	}
	return got, nil
}

// verdict is what the scaler did after an update under that scale.
func (t *trainer) verdict(scale float64) string {
	if skip, ok := t.scaler.LastSkip(); ok {
		return fmt.Sprintf("Scale %s: %v. The update is skipped, nothing moves, and the scale becomes %s.\n", power(scale), skip, power(t.scaler.Scale()))
	}
	return fmt.Sprintf("Scale %s: every gradient of a parameter is finite. The update divides them by it in its one pass.\n", power(scale))
}

// narrator tells what a step does, op by op.
type narrator struct {
	out   io.Writer
	block string // the later block that the last op was in, "" for none
	ops   int    // of it
	grads []gradient
}

// see is what the session calls for each op.
func (n *narrator) see(c autograd.Traced) {
	block := later(c.Site.Scope)
	if c.Backward {
		if c.Rule.Cast == autograd.CastLow && block == "" && !c.Out[0].Empty() {
			n.grads = append(n.grads, gradient{c.Rule.Name, c.Site.Scope, weigh(c.Out[0])})
		}
		return
	}
	if block != n.block {
		n.end()
		n.block = block
	}
	if block != "" {
		n.ops++
		return
	}
	fmt.Fprintf(n.out, "  %-34s %-28s %s\n", c.Site.Scope, c.Rule.Name, n.dtypes(c))
	if why := reason(c); why != "" {
		fmt.Fprintf(n.out, "  %-34s %-28s   %s\n", "", "", why)
	}
}

// end tells of a later block in one line.
func (n *narrator) end() {
	if n.block != "" {
		fmt.Fprintf(n.out, "  %-34s %d ops, the same\n", n.block, n.ops)
	}
	n.block, n.ops = "", 0
}

// later gives the block of a scope if it is not the first: "loss/gpt/blocks.1" of "loss/gpt/blocks.1/mlp".
func later(scope string) string {
	at := strings.Index(scope, "blocks.")
	if at < 0 {
		return ""
	}
	number, _, _ := strings.Cut(scope[at+len("blocks."):], "/")
	if number == "0" {
		return ""
	}
	return scope[:at] + "blocks." + number
}

// dtypes are those of the inputs and of the output, of parameters with their names.
func (n *narrator) dtypes(c autograd.Traced) string {
	var in []string
	for i, spec := range c.In {
		text := spec.DType.String()
		if c.Params[i] != "" {
			text += " " + c.Params[i]
		}
		in = append(in, text)
	}
	return strings.Join(in, ", ") + " -> " + c.Out[0].DType().String()
}

// reason says why autocast had the op take and give these dtypes.
func reason(c autograd.Traced) string {
	low, out := c.Cast.Low, c.Out[0].DType()
	switch {
	case !c.Cast.On() && c.Rule.Name == "cast":
		return "a product follows, which takes the half type: what is kept for backward is the half"
	case !c.Cast.On() || !out.IsFloat():
		return ""
	case c.Rule.Cast == autograd.CastLow:
		return fmt.Sprintf("a product: the time and the bytes are here. Factors in %s, parameters rounded as they are read, sums in float32", low)
	case c.Rule.Cast == autograd.CastFull:
		return "exponentials and long sums: in float32 whatever comes"
	case c.Rule.Cast == autograd.CastWidest && out == tensor.Float32 && mixed(c.In):
		return fmt.Sprintf("%s meets float32: the wider of both", low)
	case c.Rule.Cast == autograd.CastKeep && out == low && !c.View:
		return "computed in float32 and rounded once: it gives the type that it gets"
	}
	return ""
}

func mixed(in []tensor.Spec) bool {
	for _, spec := range in {
		if spec.DType != in[0].DType {
			return true
		}
	}
	return false
}

// gradient is that of one op's result.
type gradient struct {
	op, scope string
	tally
}

// tally sorts the elements of a gradient.
type tally struct {
	dtype                        tensor.DType
	n, zero, subnormal, infinite int
	largest                      float64 // of the finite ones
}

func weigh(x *tensor.Tensor) tally {
	t := tally{dtype: x.DType(), n: x.Elems()}
	for v := range values(x) {
		switch a := math.Abs(v); {
		case !(a <= math.MaxFloat64):
			t.infinite++
		case a == 0:
			t.zero++
		default:
			t.largest = max(t.largest, a)
			if a < smallest(t.dtype) {
				t.subnormal++
			}
		}
	}
	return t
}

// values gives the elements of x, whatever its strides.
func values(x *tensor.Tensor) iter.Seq[float64] {
	return func(yield func(float64) bool) {
		at := make([]int, x.Rank())
		for range x.Elems() {
			if !yield(x.At(at...)) {
				return
			}
			for d := len(at) - 1; d >= 0; d-- {
				if at[d]++; at[d] < x.Dim(d) {
					break
				}
				at[d] = 0
			}
		}
	}
}

// smallest is the least normal number of a type.
func smallest(dt tensor.DType) float64 {
	if dt == tensor.Float16 {
		return 0x1p-14
	}
	return 0x1p-126
}

func (t tally) String() string {
	if t.infinite > 0 {
		return t.share(t.infinite) + " overflow"
	}
	s := fmt.Sprintf("up to %.0e", t.largest)
	if t.zero > 0 {
		s += ", " + t.share(t.zero) + " are 0"
	}
	if t.subnormal > 0 {
		s += ", " + t.share(t.subnormal) + " lose bits"
	}
	return s
}

func (t tally) share(n int) string {
	if p := 100 * float64(n) / float64(t.n); p >= 1 {
		return fmt.Sprintf("%.0f%%", p)
	}
	return "<1%"
}

// tellGradients puts the tries side by side.
func tellGradients(out io.Writer, tries []try) {
	const width = 34
	fmt.Fprintf(out, "  %-34s %-28s %-9s", "", "op", "gradient")
	for _, t := range tries {
		fmt.Fprintf(out, " %-*s", width, "scale "+power(t.scale))
	}
	fmt.Fprintln(out)
	for i, g := range tries[0].grads {
		fmt.Fprintf(out, "  %-34s %-28s %-9s", g.scope, g.op, g.dtype)
		for _, t := range tries {
			fmt.Fprintf(out, " %-*s", width, t.grads[i])
		}
		fmt.Fprintln(out)
	}
}

// power writes a power of two as one where that is shorter.
func power(scale float64) string {
	if _, e := math.Frexp(scale); scale > 1<<17 {
		return fmt.Sprintf("2^%d", e-1)
	}
	return fmt.Sprint(scale)
}
