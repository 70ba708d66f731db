package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// dropout: y[i] = x[i] m[i], m[i] = 1/(1-p) if word[i] >= p 2^32, else 0 (Srivastava et al., 2014, scaled in training).
//
//	dx[i] = g[i] m[i]
//
// Saved: nothing. word[i] is the i-th word that the op drew from the scope's stream, a function of seed, stream and
// offset; the engine remembers the offset, and backward draws the same words again.

// Dropout zeroes each element of x with probability p and multiplies the others by 1/(1-p), if s.Training(); in
// evaluation, and with p = 0, it gives x itself. x is of a float dtype and any shape, p from 0 to 1. One word of the
// scope's random stream is drawn for each element; nothing is saved.
func Dropout(s *autograd.Scope, x *autograd.Value, p float64) *autograd.Value {
	if p == 0 || validDropout(p) && !s.Training() {
		return x
	}
	return autograd.Apply(s, dropoutOp{p: p}, x)
}

// DropoutInPlace is Dropout written over x, whose buffer the result takes over: x itself must not be used afterwards, and
// nothing may have saved it (see the package comment).
func DropoutInPlace(s *autograd.Scope, x *autograd.Value, p float64) *autograd.Value {
	if p == 0 || validDropout(p) && !s.Training() {
		return x
	}
	return autograd.Apply(s, dropoutOp{p: p, inPlace: true}, x)
}

func validDropout(p float64) bool { return p >= 0 && p <= 1 }

type dropoutOp struct {
	p       float64
	inPlace bool
}

var (
	dropoutRule        = &autograd.Rule{Name: "dropout", Each: true, Random: true, Over: overGrad}
	dropoutInPlaceRule = &autograd.Rule{Name: "dropout_", Each: true, Random: true, Over: overGrad, InPlace: true}
)

func (o dropoutOp) Rule() *autograd.Rule {
	if o.inPlace {
		return dropoutInPlaceRule
	}
	return dropoutRule
}

func (o dropoutOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if !validDropout(o.p) {
		return fmt.Errorf("want a probability from 0 to 1, got %v", o.p)
	}
	n := in[0].Elems()
	sh.Like(in[0])
	sh.Draws = uint64(n)
	sh.Chunks = kernel.Chunks(n)
	sh.BwdChunks = sh.Chunks
	return wantFloats(in[0])
}

func (o dropoutOp) Forward(f *autograd.Fwd) {
	byFloat(f.Out[0].DType(), dropoutForward[float32], dropoutForward[float64])(o, f)
}

func dropoutForward[T kernel.Float](o dropoutOp, f *autograd.Fwd) {
	drop(&f.Run, tensor.Data[T](&f.Out[0]), false, tensor.Data[T](&f.In[0]), o.p, f.Rand)
}

func (o dropoutOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, dropoutBackward[float32], dropoutBackward[float64])(o, b)
}

func dropoutBackward[T kernel.Float](o dropoutOp, b *autograd.Bwd) {
	dx, add := b.Into(0)
	drop(&b.Run, tensor.Data[T](dx), add, tensor.Data[T](b.Grad(0)), o.p, b.Rand)
}

// drop is both directions.
func drop[T kernel.Float](r *autograd.Run, dst []T, add bool, src []T, p float64, rand tensor.Stream) {
	words := kernel.Words{Seed: rand.Seed, Stream: rand.ID, Offset: rand.Offset}
	if len(src) <= kernel.ChunkSize {
		kernel.Dropout(dst, add, src, p, words)
		return
	}
	r.Par(kernel.Chunks(len(src)), func(_, c int) {
		lo, hi := kernel.Range(len(src), c)
		kernel.Dropout(dst[lo:hi], add, src[lo:hi], p, words.From(lo))
	})
}
