package autograd

import (
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// The engine's own work on whole tensors: copies, running sums, sums over broadcast dimensions. None of it touches data
// in a dry run; all of it runs on the workers.

// copyTo fills dst with src, whatever their strides.
func (ss *Session) copyTo(dst, src *tensor.Tensor) {
	if ss.Dry() {
		return
	}
	switch dst.DType() {
	case tensor.Float32:
		copyElems[float32](ss, dst, src)
	case tensor.Float64:
		copyElems[float64](ss, dst, src)
	case tensor.Int64:
		copyElems[int64](ss, dst, src)
	case tensor.Int32:
		copyElems[int32](ss, dst, src)
	case tensor.Uint8:
		copyElems[uint8](ss, dst, src)
	case tensor.Bool:
		copyElems[bool](ss, dst, src)
	case tensor.BFloat16:
		copyElems[tensor.BF16](ss, dst, src)
	default:
		copyElems[float16.Float16](ss, dst, src)
	}
}

// put fills dst with src, or adds src to it.
func (ss *Session) put(dst, src *tensor.Tensor, add bool) {
	switch {
	case ss.Dry():
	case dst.DType() != src.DType():
		ss.convert(dst, src, add)
	case !add:
		ss.copyTo(dst, src)
	case dst.DType() == tensor.Float32:
		accumulate[float32](ss, dst, src)
	case dst.DType() == tensor.Float64:
		accumulate[float64](ss, dst, src)
	default:
		accumulateHalf(ss, dst, src)
	}
}

func copyElems[T tensor.Elem](ss *Session, dst, src *tensor.Tensor) {
	d, s := operand.Of[T](dst), operand.Of[T](src)
	n := dst.Elems()
	ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Copy(d, s, lo, hi)
	})
}

func accumulate[T kernel.Float](ss *Session, dst, src *tensor.Tensor) {
	d, s := operand.Of[T](dst), operand.Of[T](src)
	n := dst.Elems()
	ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Accumulate(d, s, lo, hi)
	})
}

func accumulateHalf(ss *Session, dst, src *tensor.Tensor) {
	h, d := operand.Half(dst)
	_, s := operand.Half(src)
	n := dst.Elems()
	ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.AccumulateHalf(h, d, s, lo, hi)
	})
}

// fill sets every element of a floating point tensor.
func (ss *Session) fill(dst *tensor.Tensor, x float64) {
	if err := tensor.Fill(dst, x); err != nil {
		panic(err)
	}
}

// sumInto sums src over the dimensions in which dst's shape was broadcast to src's: the gradient of a broadcast input.
// With equal shapes it is put.
func (p *pass) sumInto(dst, src *tensor.Tensor, add bool, site memory.Site) {
	ss := p.ss
	if dst.Spec().SameShape(src.Spec()) {
		ss.put(dst, src, add)
		return
	}
	plan := kernel.NewSumTo(src.Shape(), dst.Shape())
	var r Run
	if err := r.open(ss, site, Work{Shared: plan.SharedBytes(), Chunks: plan.Chunks()}); err != nil {
		raise(site.Op, site.Scope, nil, err)
	}
	defer r.close()
	switch {
	case ss.Dry():
	case isHalf(dst.DType()) || isHalf(src.DType()):
		sumHalf(&r, &plan, dst, src, add)
	case dst.DType() == tensor.Float32:
		sumTo[float32](&r, &plan, dst, src, add)
	default:
		sumTo[float64](&r, &plan, dst, src, add)
	}
}

func sumTo[T kernel.Float](r *Run, plan *kernel.SumTo, dst, src *tensor.Tensor, add bool) {
	d, s, shared := operand.Of[T](dst), tensor.Data[T](src), kernel.View[float64](r.Shared())
	r.Par(plan.Chunks(), func(_, c int) { kernel.SumPart(plan, d, add, s, shared, c) })
	kernel.SumFinish(plan, d, add, shared)
}
