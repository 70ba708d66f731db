package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// softmax and log_softmax along one dimension, each one node:
//
//	softmax      y = exp(x) / sum exp(x)      dx = y (g - sum(g y))
//	log_softmax  y = x - log sum exp(x)       dx = g - exp(y) sum(g)
//
// Saved: y, as in torch, so that x may go or be overwritten.

// Softmax gives exp(x) divided by its sum along dim, which may be negative, of x's shape and without overflow. x is of
// a float dtype. A line with NaN or +Inf in it, or of -Inf alone, becomes NaN, as in torch. The result is saved.
func Softmax(s *autograd.Scope, x *autograd.Value, dim int) *autograd.Value {
	return autograd.Apply(s, softmaxOp{dim: dim}, x)
}

// LogSoftmax gives the logarithm of [Softmax], computed without its underflow. The result is saved.
func LogSoftmax(s *autograd.Scope, x *autograd.Value, dim int) *autograd.Value {
	return autograd.Apply(s, softmaxOp{dim: dim, log: true}, x)
}

type softmaxOp struct {
	dim int
	log bool
}

var (
	softmaxRule    = &autograd.Rule{Name: "softmax", Reads: [][]autograd.Ref{{autograd.Out(0)}}, Over: overGrad}
	logSoftmaxRule = &autograd.Rule{Name: "log_softmax", Reads: [][]autograd.Ref{{autograd.Out(0)}}, Over: overGrad}
)

func (o softmaxOp) Rule() *autograd.Rule {
	if o.log {
		return logSoftmaxRule
	}
	return softmaxRule
}

func (o softmaxOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	l, err := linesOf(in[0].Shape, o.dim)
	if err != nil {
		return err
	}
	sh.Like(in[0])
	sh.Chunks = l.Chunks()
	sh.BwdChunks = sh.Chunks
	return wantFloats(in[0])
}

// linesOf are the lines along dim, which may be negative.
func linesOf(shape []int, dim int) (kernel.Lines, error) {
	d, err := axis(dim, len(shape))
	if err != nil {
		return kernel.Lines{}, err
	}
	return kernel.LinesAlong(shape, d), nil
}

// Row: along the last dimension, rows are by themselves.
func (o softmaxOp) Row(in []tensor.Spec) (dims int, ok bool) {
	d, err := axis(o.dim, in[0].Rank())
	return 1, err == nil && d == in[0].Rank()-1
}

func (o softmaxOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), softmaxForward[float32], softmaxForward[float64])(o, f)
}

func softmaxForward[T kernel.Float](o softmaxOp, f *autograd.Fwd) {
	l, _ := linesOf(f.In[0].Shape(), o.dim) // Infer has checked it
	x, y := tensor.Data[T](&f.In[0]), tensor.Data[T](&f.Out[0])
	f.Par(l.Chunks(), func(_, c int) {
		if o.log {
			kernel.LogSoftmax(l, y, x, c)
		} else {
			kernel.Softmax(l, y, x, c)
		}
	})
}

func (o softmaxOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, softmaxBackward[float32], softmaxBackward[float64])(o, b)
}

func softmaxBackward[T kernel.Float](o softmaxOp, b *autograd.Bwd) {
	l, _ := linesOf(b.InSpec(0).Shape, o.dim)
	dst, add := b.Into(0)
	dx, g, y := tensor.Data[T](dst), tensor.Data[T](b.Grad(0)), tensor.Data[T](b.Out(0))
	b.Par(l.Chunks(), func(_, c int) {
		if o.log {
			kernel.LogSoftmaxBackward(l, dx, add, g, y, c)
		} else {
			kernel.SoftmaxBackward(l, dx, add, g, y, c)
		}
	})
}
