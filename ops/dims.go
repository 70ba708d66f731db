package ops

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Dims says which dimensions a reduction takes together: [Over] names them, no Dims at all means all of them.
//
//	ops.Sum(s, x)                      // a scalar
//	ops.Mean(s, x, ops.Over(0, -1))    // torch's x.mean((0, -1))
//	ops.AMax(s, x, ops.Over(1).Keep()) // torch's x.amax(1, keepdim=True)
type Dims struct {
	list []int // none: all
	keep bool
	many int // how many Dims there were instead of one
}

// Over names dimensions, in any order; negative ones count from the end. Over() is all of them.
func Over(dims ...int) Dims { return Dims{list: append([]int(nil), dims...)} }

// Keep leaves the reduced dimensions in the result's shape with size 1, so that the result broadcasts against the input:
// torch's keepdim=True.
func (d Dims) Keep() Dims {
	d.keep = true
	return d
}

// oneOf is the Dims of a call. What is wrong with it Infer reports.
func oneOf(over []Dims) Dims {
	switch len(over) {
	case 0:
		return Dims{}
	case 1:
		return over[0]
	}
	return Dims{many: len(over)}
}

// reduced is how Dims apply to a shape.
type reduced struct {
	rank    int
	size    [kernel.MaxRank]int // of the result, 1 in reduced dimensions
	strides [kernel.MaxRank]int // of the result, seen over the input's shape
	rows    int                 // elements taken together
	elems   int                 // elements of the result
}

// of applies d to a shape.
func (d Dims) of(shape []int) (r reduced, err error) {
	if err := wantRank(shape); err != nil {
		return r, err
	}
	if d.many > 0 {
		return r, fmt.Errorf("want one Over, got %d: Over(0, 1) names several dimensions", d.many)
	}
	var gone [kernel.MaxRank]bool
	for _, dim := range d.list {
		i, err := axis(dim, len(shape))
		if err != nil {
			return r, err
		}
		if gone[i] {
			return r, fmt.Errorf("dims %v of rank %d: dim %d is named twice", d.list, len(shape), i)
		}
		gone[i] = true
	}
	r.rank, r.rows, r.elems = len(shape), 1, 1
	for i := len(shape) - 1; i >= 0; i-- {
		if len(d.list) == 0 || gone[i] {
			r.size[i] = 1
			r.rows *= shape[i]
			continue
		}
		r.size[i], r.strides[i] = shape[i], r.elems
		r.elems *= shape[i]
	}
	return r, nil
}

// kept is the result's shape with the reduced dimensions in it.
func (r *reduced) kept() []int { return r.size[:r.rank] }

// add appends the result to the outputs.
func (d Dims) add(sh *autograd.Shapes, dt tensor.DType, shape []int, r *reduced) {
	if d.keep {
		sh.Add(dt, r.kept()...)
		return
	}
	var room [kernel.MaxRank]int
	out := room[:0]
	for i, n := range shape {
		if len(d.list) > 0 && !d.reduces(i, len(shape)) {
			out = append(out, n)
		}
	}
	sh.Add(dt, out...)
}

// reduces tells whether dimension i, counted from the start, is in the list.
func (d Dims) reduces(i, rank int) bool {
	for _, dim := range d.list {
		if dim == i || dim+rank == i {
			return true
		}
	}
	return false
}
