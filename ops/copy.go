package ops

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// What ops that only move elements share. They move them by their size, so any dtype will do.

// bySize chooses between the instances of a generic function by the size of a dtype's elements.
func bySize[F any](dt tensor.DType, f1, f2, f4, f8 F) F {
	switch dt.Size() {
	case 1:
		return f1
	case 2:
		return f2
	case 4:
		return f4
	}
	return f8
}

// copyTensor fills dst with src, of one spec, whatever their strides.
func copyTensor(r *autograd.Run, dst, src *tensor.Tensor) {
	bySize(dst.DType(), copyWords[uint8], copyWords[uint16], copyWords[uint32], copyWords[uint64])(r, dst, src)
}

func copyWords[W uint8 | uint16 | uint32 | uint64](r *autograd.Run, dst, src *tensor.Tensor) {
	d, s, n := operand.Words[W](dst), operand.Words[W](src), dst.Elems()
	if n <= kernel.ChunkSize {
		kernel.Copy(d, s, 0, n)
		return
	}
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Copy(d, s, lo, hi)
	})
}

// putTensor fills dst with src, of one spec and of floats, or adds it.
func putTensor(r *autograd.Run, dst, src *tensor.Tensor, add bool) {
	if !add {
		copyTensor(r, dst, src)
		return
	}
	byFloat(dst.DType(), addTensor[float32], addTensor[float64])(r, dst, src)
}

func addTensor[T interface {
	kernel.Float
	tensor.Elem
}](r *autograd.Run, dst, src *tensor.Tensor) {
	d, s, n := operand.Of[T](dst), operand.Of[T](src), dst.Elems()
	if n <= kernel.ChunkSize {
		kernel.Accumulate(d, s, 0, n)
		return
	}
	r.Par(kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Accumulate(d, s, lo, hi)
	})
}
