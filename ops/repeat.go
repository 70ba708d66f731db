package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// repeat: x several times side by side along each dimension.
//
//	y[i ..] = x[i mod n ..]        dx = g, summed over the repetitions
//
// With each dimension of y seen as two, repetition and position, y is x expanded and dx a sum over broadcast dimensions.
//
// Saved: nothing.

// Repeat puts x times[d] times side by side along dimension d; there may be more times than x has dimensions, for new
// leading ones. x is of any dtype. Nothing is saved. [Expand] repeats what has size 1 without a copy.
func Repeat(s *autograd.Scope, x *autograd.Value, times ...int) *autograd.Value {
	return autograd.Apply(s, repeatOp{append([]int{}, times...)}, x)
}

type repeatOp struct{ times []int }

var repeatRule = &autograd.Rule{Name: "repeat", Strided: true}

func (repeatOp) Rule() *autograd.Rule { return repeatRule }

func (o repeatOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := in[0]
	if len(o.times) < x.Rank() {
		return fmt.Errorf("repeat %v: want a number of times for each of %d dimensions", o.times, x.Rank())
	}
	if 2*len(o.times) > kernel.MaxRank {
		return fmt.Errorf("want at most %d dimensions, got %d", kernel.MaxRank/2, len(o.times))
	}
	sh.Add(x.DType, o.times...)
	y := sh.Out[0].Shape
	for d, n := range o.times {
		if n < 0 {
			return fmt.Errorf("repeat %v: want 0 or more times", o.times)
		}
		y[d] = n * sizeAt(x.Shape, d-len(y))
	}
	v := o.split(x.Shape, nil)
	p := v.plan()
	sh.Chunks = kernel.Chunks(product(y))
	sh.BwdChunks, sh.BwdShared = p.Chunks(), p.SharedBytes()
	return nil
}

// repeated is y's dimensions, each split into repetition and position; one has sizes of 1 for the repetitions. strides are
// x's over both.
type repeated struct {
	rank              int
	all, one, strides [kernel.MaxRank]int
}

// split splits the dimensions of a result of x.
func (o repeatOp) split(shape []int, x *tensor.Tensor) (v repeated) {
	for d, times := range o.times {
		k := d - len(o.times)
		n := sizeAt(shape, k)
		v.all[2*d], v.all[2*d+1] = times, n
		v.one[2*d], v.one[2*d+1] = 1, n
		if x != nil && k+len(shape) >= 0 {
			v.strides[2*d+1] = x.Stride(k)
		}
	}
	v.rank = 2 * len(o.times)
	return v
}

func (v *repeated) plan() kernel.SumTo { return kernel.NewSumTo(v.all[:v.rank], v.one[:v.rank]) }

func (o repeatOp) Forward(f *autograd.Fwd) {
	bySize(f.Out[0].DType(), repeatForward[uint8], repeatForward[uint16], repeatForward[uint32], repeatForward[uint64])(o, f)
}

func repeatForward[W uint8 | uint16 | uint32 | uint64](o repeatOp, f *autograd.Fwd) {
	v := o.split(f.In[0].Shape(), &f.In[0])
	src := kernel.Strided[W]{Data: operand.Words[W](&f.In[0]).Data, Shape: v.all[:v.rank], Strides: v.strides[:v.rank]}
	dst := kernel.Contiguous(operand.Words[W](&f.Out[0]).Data, src.Shape)
	n := f.Out[0].Elems()
	f.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Copy(dst, src, lo, hi)
	})
}

func (o repeatOp) Backward(b *autograd.Bwd) {
	byFloat(b.OutSpec(0).DType, repeatBackward[float32], repeatBackward[float64])(o, b)
}

func repeatBackward[T interface {
	kernel.Float
	tensor.Elem
}](o repeatOp, b *autograd.Bwd) {
	dst, add := b.Into(0)
	v := o.split(dst.Shape(), dst)
	p := v.plan()
	dx := kernel.Strided[T]{Data: tensor.Raw[T](dst), Shape: v.one[:v.rank], Strides: v.strides[:v.rank]}
	g, shared := tensor.Data[T](b.Grad(0)), kernel.View[float64](b.Shared())
	b.Par(p.Chunks(), func(_, c int) { kernel.SumPart(&p, dx, add, g, shared, c) })
	kernel.SumFinish(&p, dx, add, shared)
}
