package tensor

import (
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/internal/philox"
)

// The two fills use fixed words of the stream for each element, so that a value depends on the stream and on the element's
// row-major index alone:
//
//	uniform float32  word i                  uniform float64  words 2i, 2i+1
//	normal  float32  words 2p, 2p+1          normal  float64  words 4p to 4p+3      of pair p = i/2
//
// Half types have the words and the values of Float32, rounded. A stream's words count from the offset that it had.

// FillUniform sets the elements of a tensor of a float type to values evenly spread over [lo, hi), with 53 bits of the
// stream each for Float64 and 24 for the others, and advances s behind them. Float16 and BFloat16 get the values of
// Float32, rounded, so that a model in half precision starts where one in single does. hi itself does not occur, unless
// it is lo: what rounding would take there becomes the largest value below. An expanded view is refused.
func FillUniform(t *Tensor, s *Stream, lo, hi float64) error {
	if err := t.random("uniform"); err != nil {
		return err
	}
	if !(lo <= hi && hi-lo <= math.MaxFloat64) {
		return fmt.Errorf("tensor: fill uniform %v: want finite lo <= hi, got %v and %v", t.spec, lo, hi)
	}
	if dt := t.spec.DType; math.IsInf(rounded(dt, lo), 0) || math.IsInf(rounded(dt, hi), 0) {
		return fmt.Errorf("tensor: fill uniform %v: %v or %v is beyond the largest %v", t.spec, lo, hi, dt)
	}
	u := &uniform{lo: lo, width: hi - lo, perElem: 1, top: max(below(t.spec.DType, hi), lo)}
	if t.spec.DType == Float64 {
		u.perElem = 2
	}
	u.stream = s.Take(uint64(t.Elems()) * u.perElem)
	t.Bump()
	if t.writable() {
		generate(t, u)
	}
	return nil
}

// FillNormal sets the elements of a tensor of a float type to normally distributed values (Box and Muller 1958) and
// advances s behind them. Float64 values come from 53 bits each and end at 8.6 std, those of the others from 32, at 6.7;
// Float16 and BFloat16 get the values of Float32, rounded. An expanded view is refused. The last bit is that of Go's
// math.Log, which has code of its own on some architectures.
func FillNormal(t *Tensor, s *Stream, mean, std float64) error {
	if err := t.random("normal"); err != nil {
		return err
	}
	if !(0 <= std && std <= math.MaxFloat64 && math.Abs(mean) <= math.MaxFloat64) {
		return fmt.Errorf("tensor: fill normal %v: want finite mean and std >= 0, got %v and %v", t.spec, mean, std)
	}
	g := &normal{mean: mean, std: std, perPair: 2}
	if t.spec.DType == Float64 {
		g.perPair = 4
	}
	g.stream = s.Take((uint64(t.Elems()) + 1) / 2 * g.perPair)
	t.Bump()
	if t.writable() {
		generate(t, g)
	}
	return nil
}

// random reports why t cannot be filled with random values.
func (t *Tensor) random(name string) error {
	if !t.spec.DType.IsFloat() {
		return fmt.Errorf("tensor: fill %s %v: want a float dtype", name, t.spec)
	}
	if t.expanded() {
		return fmt.Errorf("tensor: fill %s %v: %w", name, t.spec, errExpanded)
	}
	return nil
}

// rounded is v as dt holds it, of the float types.
func rounded(dt DType, v float64) float64 {
	switch dt {
	case Float32:
		return float64(float32(v))
	case Float16, BFloat16:
		return fromHalf(dt, toHalf(dt, v))
	default:
		return v
	}
}

// below is the largest value of dt that is less than hi; for Float32, less than hi rounded to it.
func below(dt DType, hi float64) float64 {
	switch dt {
	case Float32:
		return float64(math.Nextafter32(float32(hi), float32(math.Inf(-1))))
	case Float64:
		return math.Nextafter(hi, math.Inf(-1))
	}
	h := toHalf(dt, hi)
	if v := fromHalf(dt, h); v < hi {
		return v
	}
	switch {
	case h&0x7fff == 0:
		h = 0x8001 // the negative number next to zero
	case h&0x8000 != 0:
		h++
	default:
		h--
	}
	return fromHalf(dt, h)
}

type uniform struct {
	stream         Stream
	perElem        uint64
	lo, width, top float64 // top: the largest value below hi, in the precision of the tensor
	words          [2 * chunk]uint32
}

func (u *uniform) values(dst []float64, at uint64) {
	w := u.words[:uint64(len(dst))*u.perElem]
	philox.Fill(w, u.stream.Seed, u.stream.ID, u.stream.Offset+at*u.perElem)
	for i := range dst {
		var x float64
		if u.perElem == 1 {
			x = float64(float32(u.lo + float64(u.width*float64(philox.Float32(w[i])))))
		} else {
			x = u.lo + float64(u.width*philox.Float64(w[2*i], w[2*i+1]))
		}
		dst[i] = min(x, u.top) // rounding may reach hi
	}
}

type normal struct {
	stream    Stream
	perPair   uint64
	mean, std float64
	words     [2 * chunk]uint32
}

func (g *normal) values(dst []float64, at uint64) {
	pairs := (uint64(len(dst)) + 1) / 2
	w := g.words[:pairs*g.perPair]
	philox.Fill(w, g.stream.Seed, g.stream.ID, g.stream.Offset+at/2*g.perPair)
	for i := 0; i < len(dst); i += 2 {
		even, odd := g.pair(w[uint64(i)/2*g.perPair:])
		dst[i] = g.scaled(even)
		if i+1 < len(dst) {
			dst[i+1] = g.scaled(odd)
		}
	}
}

func (g *normal) scaled(z float64) float64 {
	x := g.mean + float64(g.std*z)
	if g.perPair == 2 {
		x = float64(float32(x))
	}
	return x
}

// pair is two independent standard normal values. The radius takes the logarithm of a number in (0, 1], never of 0.
func (g *normal) pair(w []uint32) (even, odd float64) {
	var u, v float64
	if g.perPair == 2 {
		u, v = (float64(w[0])+1)*0x1p-32, float64(w[1])*0x1p-32
	} else {
		u, v = 1-philox.Float64(w[0], w[1]), philox.Float64(w[2], w[3])
	}
	r := math.Sqrt(-2 * math.Log(u))
	sin, cos := math.Sincos(2 * math.Pi * v)
	return r * cos, r * sin
}
