package optim

import (
	"sort"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// pieces cuts tensors of several lengths into flat chunks that are numbered through, so that one call of Par covers them
// all: a model of many small parameters keeps the workers as busy as one of few large ones.
type pieces struct {
	elems  []int
	starts []int // number of the first chunk of each tensor
	chunks int
}

func (p *pieces) reset() { p.elems, p.starts, p.chunks = p.elems[:0], p.starts[:0], 0 }

// add appends a tensor of n elements.
func (p *pieces) add(n int) {
	p.elems = append(p.elems, n)
	p.starts = append(p.starts, p.chunks)
	p.chunks += kernel.Chunks(n)
}

// at is chunk c: elements [lo, hi) of tensor i.
func (p *pieces) at(c int) (i, lo, hi int) {
	i = sort.SearchInts(p.starts, c+1) - 1 // the last that starts at or before c: those before it on a tie are empty
	lo, hi = kernel.Range(p.elems[i], c-p.starts[i])
	return i, lo, hi
}

// of are the numbers of the chunks of tensor i: [from, to).
func (p *pieces) of(i int) (from, to int) {
	return p.starts[i], p.starts[i] + kernel.Chunks(p.elems[i])
}

// piece is elements [lo, hi) of t.
func piece[T kernel.Float](t *tensor.Tensor, lo, hi int) []T { return tensor.Data[T](t)[lo:hi] }

// operands are the elements that a rule works on; state has as many tensors as the rule keeps, the rest is nil.
type operands[T kernel.Float] struct {
	p, g  []T
	state [3][]T
}

// double tells that the rule works in float64.
func (sl *slot) double() bool { return sl.par.Spec().DType == tensor.Float64 }

func (sl *slot) float64s(lo, hi int) operands[float64] { return operandsOf[float64](sl, lo, hi) }

// float32s are elements [lo, hi): of a parameter of a half type, those that were widened.
func (sl *slot) float32s(lo, hi int) operands[float32] {
	if sl.wide != nil {
		return sl.wide.x
	}
	return operandsOf[float32](sl, lo, hi)
}

func operandsOf[T kernel.Float](sl *slot, lo, hi int) operands[T] {
	x := operands[T]{p: piece[T](&sl.w, lo, hi), g: piece[T](&sl.g, lo, hi)}
	for k := range sl.state {
		x.state[k] = piece[T](&sl.state[k], lo, hi)
	}
	return x
}
