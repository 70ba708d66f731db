package optim

import (
	"fmt"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/operand"
	"github.com/thimble-ml/thimble/tensor"
)

// HalfUpdate says how a parameter in Float16 or BFloat16 takes an update. Every rule computes in float32, weight decay
// included, and what it writes is rounded at the end; the ways differ in how that is done and in what is kept for it.
//
//	                 the weight is rounded             moments are               bytes besides a moment's 2
//	RoundNearest     to nearest even                   rounded to nearest even   none
//	RoundStochastic  up or down at random              rounded at random         none
//	RoundKahan       to nearest even, what that lost   rounded at random         2 a parameter
//	                 is added at the next step
//	MasterWeights    from its master in float32        float32                   4 a parameter, 2 a moment
//
// RoundNearest loses an update that is smaller than half the spacing of a weight: in BFloat16 a weight of 1 falls by 2^-8
// or not at all, and a second moment that changes by a thousandth a step never falls again. Training stalls; it is there
// to show that.
//
// RoundStochastic rounds up with the probability that makes the mean right (Gupta et al., 2015). It takes no memory, and
// random words from a stream of the optimizer's own: which ones follows from that stream, which StateDict saves, from the
// parameter's place and step counter and from the element, so that training resumes to the same bits.
//
// RoundKahan is compensated summation (Kahan, 1965): weight and compensation together are nearly a float32.
//
// MasterWeights is mixed precision as first described (Micikevicius et al., 2018). A weight that somebody else has written,
// by loading a model for instance, replaces its master at the next step.
//
// In Float16 moments underflow as gradients do: squares below 6e-8 are 0, and the update divides by Eps alone. Use
// MasterWeights, or BFloat16. Adafactor's moments are float32 always.
type HalfUpdate uint8

// The ways.
const (
	RoundNearest HalfUpdate = iota
	RoundStochastic
	RoundKahan
	MasterWeights
)

var halfNames = [...]string{"RoundNearest", "RoundStochastic", "RoundKahan", "MasterWeights"}

// String is the name of the constant.
func (u HalfUpdate) String() string {
	if int(u) < len(halfNames) {
		return halfNames[u]
	}
	return fmt.Sprintf("HalfUpdate(%d)", uint8(u))
}

// check refuses what is none of the ways.
func (u HalfUpdate) check() error {
	if int(u) < len(halfNames) {
		return nil
	}
	return fmt.Errorf("unknown way %v in Half: want RoundNearest, RoundStochastic, RoundKahan or MasterWeights", u)
}

func isHalf(dt tensor.DType) bool { return dt == tensor.Float16 || dt == tensor.BFloat16 }

// kept lists the tensors kept for a parameter of that spec: the rule's, and what the update of a half type keeps.
func kept(cfg config, spec tensor.Spec) []moment {
	if !isHalf(spec.DType) {
		return cfg.state(spec)
	}
	wide := tensor.Spec{DType: tensor.Float32, Shape: spec.Shape}
	as := spec
	if _, wholes := cfg.(whole); wholes || cfg.half() == MasterWeights {
		as = wide
	}
	list := cfg.state(as)
	switch cfg.half() {
	case RoundKahan:
		list = append(list, moment{"compensation", spec})
	case MasterWeights:
		list = append(list, moment{"master", wide})
	}
	return list
}

// wideBlock is how many elements are widened at a time: what fits into the first cache.
const wideBlock = 2048

// wideRoom is the bytes of a lane for n elements: weight, gradient, three moments.
func wideRoom(n int) int64 { return 5 * 4 * int64(n) }

// halfPiece is a parameter of a half type at work on one lane: the slot that a rule gets, whose numbers are those of the
// block that is open, in float32.
type halfPiece struct {
	slot
	mode  HalfUpdate
	half  kernel.Half
	words kernel.Words // of the parameter's first number, in this step
	rule  int          // tensors of the rule; behind them are compensation or master
	lane  []byte

	x       operands[float32]
	w       []uint16
	moments [3][]uint16 // nil where a moment is float32, or is not widened
	at      int         // the first element of the block, in the parameter
	room    []byte      // of lane, what is left
}

// halfWork is the bytes of a lane that c wants for parameters of half types among list.
func (c *core) halfWork(list []*slot) (n int64) {
	for _, sl := range list {
		if !isHalf(sl.par.Spec().DType) {
			continue
		}
		if len(c.halves) < c.ss.Lanes() {
			c.halves = make([]halfPiece, c.ss.Lanes())
		}
		if _, wholes := c.groups[sl.group].(whole); !wholes { // those say it in their scratch
			n = max(n, wideRoom(min(wideBlock, sl.par.Spec().Elems())))
		}
	}
	return n
}

// update applies the rule to elements [lo, hi) of sl, which runs on that lane.
func (c *core) update(sl *slot, lane int, room []byte, lo, hi int) {
	cfg := c.groups[sl.group]
	if !isHalf(sl.par.Spec().DType) {
		cfg.update(sl, lo, hi)
		return
	}
	h := c.halfPiece(sl, lane, room)
	for ; lo < hi; lo += wideBlock {
		n := min(wideBlock, hi-lo)
		h.open(lo, n)
		cfg.update(&h.slot, 0, n)
		h.close()
	}
}

// whole applies a rule that wants whole parameters.
func (c *core) whole(sl *slot, lane int, room []byte) {
	if isHalf(sl.par.Spec().DType) {
		sl = &c.halfPiece(sl, lane, room).slot
	}
	c.groups[sl.group].(whole).step(room, sl)
}

// halfPiece prepares the lane for sl.
func (c *core) halfPiece(sl *slot, lane int, room []byte) *halfPiece {
	h := &c.halves[lane]
	h.slot, h.mode, h.lane = *sl, c.groups[sl.group].half(), room
	h.slot.wide = h
	h.half = operand.HalfOf(sl.par.Spec().DType)
	h.rule = len(sl.state)
	if h.mode == RoundKahan || h.mode == MasterWeights {
		h.rule--
	}
	step := uint64(1+h.rule) * uint64(sl.par.Spec().Elems()) // words that a step may take
	h.words = kernel.Words{Seed: c.rand.Seed, Stream: c.rand.ID<<32 | sl.id, Offset: uint64(sl.steps) * step}
	return h
}

// open widens elements [lo, lo+n) for a rule that looks at each.
func (h *halfPiece) open(lo, n int) {
	h.room, h.at = h.lane, h.base+lo
	h.x.g = h.grad(lo, n)
	h.x.p = h.weight(lo, n)
	for k := range h.x.state {
		h.x.state[k], h.moments[k] = nil, nil
		if k < h.rule {
			h.x.state[k] = h.moment(k, lo, n)
		}
	}
}

// openWhole widens elements [lo, lo+n) of weight and gradient alone, with that room.
func (h *halfPiece) openWhole(room []byte, lo, n int) {
	h.room, h.at = room, h.base+lo
	h.x = operands[float32]{g: h.grad(lo, n), p: h.weight(lo, n)}
	h.moments = [3][]uint16{}
}

// take cuts n numbers off the room.
func (h *halfPiece) take(n int) []float32 {
	x := kernel.View[float32](h.room[:4*n])
	h.room = h.room[4*n:]
	return x
}

func (h *halfPiece) grad(lo, n int) []float32 {
	x := h.take(n)
	h.half.Widen(x, bits(&h.slot.g, lo, n))
	return x
}

// weight is what the rule works on: the master where there is one, else what is stored, with what rounding has lost.
func (h *halfPiece) weight(lo, n int) []float32 {
	h.w = bits(&h.slot.w, lo, n)
	if h.mode == MasterWeights {
		x := piece[float32](&h.state[h.rule], lo, lo+n)
		h.half.Reconcile(x, h.w)
		return x
	}
	x := h.take(n)
	if h.mode == RoundKahan {
		h.half.WidenPair(x, h.w, h.lost(lo, n))
	} else {
		h.half.Widen(x, h.w)
	}
	return x
}

// lost is the compensation.
func (h *halfPiece) lost(lo, n int) []uint16 { return bits(&h.state[h.rule], lo, n) }

func (h *halfPiece) moment(k, lo, n int) []float32 {
	t := &h.state[k]
	if t.DType() == tensor.Float32 {
		return piece[float32](t, lo, lo+n)
	}
	h.moments[k] = bits(t, lo, n)
	x := h.take(n)
	h.half.Widen(x, h.moments[k])
	return x
}

// close rounds what the rule wrote.
func (h *halfPiece) close() {
	for k, to := range h.moments {
		if to != nil {
			h.round(to, h.x.state[k], 1+k)
		}
	}
	switch h.mode {
	case RoundStochastic:
		h.round(h.w, h.x.p, 0)
	case RoundKahan:
		h.half.RoundPair(h.w, h.lost(h.at-h.base, len(h.w)), h.x.p)
	default:
		h.half.Round(h.w, h.x.p)
	}
}

// round rounds numbers of tensor k of the parameter: 0 is the weight, others are moments.
func (h *halfPiece) round(dst []uint16, src []float32, k int) {
	if h.mode == RoundNearest {
		h.half.Round(dst, src)
		return
	}
	h.half.RoundStochastic(dst, src, h.words.From(k*h.par.Spec().Elems()+h.at))
}

func bits(t *tensor.Tensor, lo, n int) []uint16 { return operand.Words[uint16](t).Data[lo:][:n] }
