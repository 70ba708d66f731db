package main

import (
	"context"
	"fmt"
	"io"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// refused are in-place operations that would train wrong, and why. w is a parameter [3].
var refused = []struct {
	why string
	f   func(s *autograd.Scope, w *autograd.Value)
}{
	{"y = sigmoid(w), relu_(y): sigmoid's gradient reads y. Told by Backward:", func(s *autograd.Scope, w *autograd.Value) {
		ops.Sum(s, ops.ReLUInPlace(s, ops.Sigmoid(s, w))).Backward(s)
	}},
	{"x = 2w, x += gelu(x): gelu has saved x. Told by Backward:", func(s *autograd.Scope, w *autograd.Value) {
		x := ops.MulScalar(s, w, 2)
		ops.Sum(s, ops.AddInPlace(s, x, ops.GELU(s, x))).Backward(s)
	}},
	{"relu_(w): a parameter's own value. Told at once:", func(s *autograd.Scope, w *autograd.Value) {
		ops.ReLUInPlace(s, w)
	}},
	{"x = 2w, x *= w: the gradient of w reads x as it was. Told at once:", func(s *autograd.Scope, w *autograd.Value) {
		ops.MulInPlace(s, ops.MulScalar(s, w, 2), w)
	}},
	{"x = 2w, relu_(x), then x is used. Told by the use:", func(s *autograd.Scope, w *autograd.Value) {
		x := ops.MulScalar(s, w, 2)
		ops.ReLUInPlace(s, x)
		ops.Neg(s, x)
	}},
}

// refusals tries them, each in a step of its own, and prints what is said.
func refusals(ctx context.Context, out io.Writer) (err error) {
	var ending row.Cleanup
	defer ending.Run(&err)
	_, sess, err := row.Open(memory.Config{Limit: 1 << 20}, autograd.Config{Seed: 1}, &ending)
	if err != nil {
		return err
	}
	w, err := sess.NewParam("w", tensor.Of(tensor.Float32, 3), nil)
	if err != nil {
		return err
	}
	for _, r := range refused {
		err := sess.Step(ctx, func(s *autograd.Scope) error { r.f(s, w.Value()); return nil })
		if err == nil {
			return fmt.Errorf("inplace: %s nothing", r.why)
		}
		fmt.Fprintf(out, "%s\n  %v\n\n", r.why, err)
	}
	return nil
}
