package autograd

import (
	"errors"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Half types (R10). They are how tensors are stored, saved and handed on; kernels compute in float32. An op that neither says
// Halves nor works by rows (tile.go) gets float32 copies of what it reads, fills float32 copies of what it gives, and the
// engine rounds those once. The copies are counted as Temporary and live as long as the kernel runs. Hidden outputs, such as
// row statistics, stay in float32.

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// sight is how the kernels of one call of an op see its tensors.
type sight struct {
	wide bool         // halves as float32
	tile bool         // by a tile at a time (tile.go), not by copies
	dims int          // that make a row of a tile
	hide int          // hidden outputs
	low  tensor.DType // what parameters in float32 are rounded to before they are used; Float32: nothing
	out  tensor.DType // of outputs that a wide op says are float32
}

// spec is the spec that kernels see for s.
func (st *sight) spec(s tensor.Spec) tensor.Spec {
	if st.wide && isHalf(s.DType) {
		s.DType = tensor.Float32
	}
	return s
}

// converts tells whether a kernel sees another tensor than the one that is there.
func (st *sight) converts(dt tensor.DType, par bool) bool {
	return st.wide && !st.tile && (isHalf(dt) || par && dt == tensor.Float32 && st.low != tensor.Float32)
}

var errMixed = errors.New("want equal dtypes; convert with Cast, or work under autocast")

// look decides how the kernels see the inputs.
func (w *work) look(op Op) {
	w.seen, w.sight = w.specs, sight{}
	p := w.s.m.Cast
	half, single, double := tensor.Float32, false, false
	for _, s := range w.specs {
		switch {
		case s.DType == tensor.Float32:
			single = true
		case s.DType == tensor.Float64:
			double = true
		case !isHalf(s.DType):
		case half == tensor.Float32:
			half = s.DType
		case half != s.DType:
			w.fail(errMixed)
		}
	}
	if p.On() && w.rule.Cast == CastLow && single && half == tensor.Float32 {
		half = p.Low // of parameters alone
	}
	if half == tensor.Float32 || double || moves(op) || w.takesHalves(half) {
		return
	}
	if single && !p.On() {
		w.fail(errMixed)
	}
	w.sight = sight{wide: true, out: w.resultType(half, single)}
	if p.On() && w.rule.Cast == CastLow {
		w.sight.low = p.Low
	}
	w.wide = w.wide[:0]
	for _, s := range w.specs {
		w.wide = append(w.wide, w.sight.spec(s))
	}
	w.seen = w.wide
}

// takesHalves tells whether the kernels see the inputs as they are, those of parameters in Float32 beside halves included.
// Of an op with parameters in Float32 alone, rounded, they see copies.
func (w *work) takesHalves(half tensor.DType) bool {
	if !w.rule.Halves {
		return false
	}
	if w.rule.Cast != CastLow {
		return true
	}
	seen, single := false, false
	for _, s := range w.specs {
		seen = seen || s.DType == half
		single = single || s.DType == tensor.Float32
	}
	if seen && single && !w.s.m.Cast.On() {
		w.fail(errMixed)
	}
	return seen
}

// moves tells of an op that makes views, or puts tensors side by side: it takes every dtype as it is.
func moves(op Op) bool {
	if _, ok := op.(Viewer); ok {
		return true
	}
	_, ok := op.(Joiner)
	return ok
}

// resultType is the dtype of what the op says is float32.
func (w *work) resultType(half tensor.DType, single bool) tensor.DType {
	switch {
	case w.rule.InPlace:
		return w.specs[0].DType
	case !single && (!w.s.m.Cast.On() || w.rule.Cast != CastFull):
		return half
	case w.rule.Cast == CastLow:
		return w.s.m.Cast.Low
	case w.rule.Cast == CastKeep && w.specs[0].DType == half:
		return half
	}
	return tensor.Float32
}

// narrow gives the outputs the dtype that they are stored in, and decides whether kernels go by tiles.
func (w *work) narrow(op Op) {
	if !w.sight.wide {
		return
	}
	w.sight.dims, w.sight.tile = rowDims(op, w.seen)
	w.sight.hide = w.sh.Hidden
	for i := range w.sh.Out[:len(w.sh.Out)-w.sh.Hidden] {
		if o := &w.sh.Out[i]; o.DType == tensor.Float32 {
			o.DType = w.sight.out
		}
	}
}

// converted gives t as float32, contiguous, listed in temps.
func (ss *Session) converted(st *sight, t *tensor.Tensor, temps *[]tensor.Tensor, site memory.Site) (tensor.Tensor, error) {
	spec := tensor.Spec{DType: tensor.Float32, Shape: t.Shape()}
	c, err := tensor.Make(ss.dev, memory.Temporary, site, spec)
	if err != nil {
		return c, err
	}
	*temps = append(*temps, c)
	switch {
	case ss.Dry():
	case isHalf(t.DType()):
		ss.convert(&c, t, false)
	default:
		ss.quantize(&c, t, st.low)
	}
	return c, nil
}

// results sets what the kernel fills: the outputs, or float32 in their stead.
func (w *work) results() error {
	if !w.sight.wide && !w.rule.InPlace {
		w.f.Out = w.outs
		return nil
	}
	w.filled = w.filled[:0]
	for i := range w.outs {
		t := w.outs[i]
		switch {
		case w.rule.InPlace && i == 0:
			if in := w.f.In[0]; !w.sight.tile && (!w.rule.Broadcast || w.sight.wide) {
				t = in // itself, or a copy that round puts back
			}
		case !w.sight.wide || w.sight.tile || t.Empty() || !isHalf(t.DType()):
		default:
			c, err := tensor.Make(w.ss.dev, memory.Temporary, w.site, w.sight.spec(t.Spec()))
			if err != nil {
				return err
			}
			w.temps = append(w.temps, c)
			t = c
		}
		w.filled = append(w.filled, t)
	}
	w.f.Out = w.filled
	return nil
}

// round puts what the kernel filled beside the outputs into them: what it saw in float32, and what an in-place operation
// saw as a contiguous copy.
func (w *work) round() {
	if w.ss.Dry() || !w.sight.wide && !w.rule.InPlace {
		return
	}
	for i := range w.outs {
		switch t, filled := &w.outs[i], &w.filled[i]; {
		case t.Empty() || t.Buffer() == filled.Buffer():
		case t.DType() != filled.DType():
			w.ss.convert(t, filled, false)
		default:
			w.ss.copyTo(t, filled)
		}
	}
}

// incoming widens the gradients of the outputs.
func (c *call) incoming(site memory.Site) {
	if !c.b.node.sight.wide {
		return
	}
	for i, t := range c.b.grads {
		if !t.Empty() {
			c.b.grads[i] = c.seen(t, site)
		}
	}
}

// seen is t as the kernels see it.
func (c *call) seen(t tensor.Tensor, site memory.Site) tensor.Tensor {
	st := &c.b.node.sight
	if !st.converts(t.DType(), false) {
		return t
	}
	w, err := c.p.ss.converted(st, &t, &c.temps, site)
	if err != nil {
		raise(site.Op, site.Scope, []tensor.Spec{t.Spec()}, err)
	}
	return w
}

// convert fills dst with src in its dtype, or adds it, rounding once: one is float32, the other a half type.
func (ss *Session) convert(dst, src *tensor.Tensor, add bool) {
	n := dst.Elems()
	if isHalf(src.DType()) {
		h, s := operand.Half(src)
		d := operand.Of[float32](dst)
		ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
			lo, hi := kernel.Range(n, c)
			kernel.Widen(h, d, add, s, lo, hi)
		})
		return
	}
	h, d := operand.Half(dst)
	s := operand.Of[float32](src)
	ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Round(h, d, add, s, lo, hi)
	})
}

// quantize fills dst with src rounded to a half type: both are float32.
func (ss *Session) quantize(dst, src *tensor.Tensor, low tensor.DType) {
	d, s := operand.Of[float32](dst), operand.Of[float32](src)
	n := dst.Elems()
	h := operand.HalfOf(low)
	ss.workers.Run(ss.lanes, kernel.Chunks(n), func(_, c int) {
		lo, hi := kernel.Range(n, c)
		kernel.Quantize(h, d, s, lo, hi)
	})
}

// sumHalf sums as plan says where a half type is involved: in float64, rounded to float32 and then once to a half.
func sumHalf(r *Run, plan *kernel.SumTo, dst, src *tensor.Tensor, add bool) {
	s, shared := kernel.MixedSum{SumTo: plan, Add: add}, kernel.View[float64](r.Shared())
	if isHalf(src.DType()) {
		h, bits := operand.Half(src)
		s.Half, s.SrcBits = h, bits.Data
	} else {
		s.Src = tensor.Data[float32](src)
	}
	if isHalf(dst.DType()) {
		s.Half, s.DstBits = operand.Half(dst)
	} else {
		s.Dst = operand.Of[float32](dst)
	}
	r.Par(plan.Chunks(), func(_, c int) { s.Part(shared, c) })
	s.Finish(shared)
}
