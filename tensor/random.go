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
// A stream's words count from the offset that it had.

// FillUniform sets the elements of a Float32 or Float64 tensor to values evenly spread over [lo, hi), with 24 and 53 bits
// of the stream each, and advances s behind them. hi itself does not occur, unless it is lo. An expanded view is refused.
func FillUniform(t *Tensor, s *Stream, lo, hi float64) error {
	if err := t.random("uniform"); err != nil {
		return err
	}
	if !(lo <= hi && hi-lo <= math.MaxFloat64) {
		return fmt.Errorf("tensor: fill uniform %v: want finite lo <= hi, got %v and %v", t.spec, lo, hi)
	}
	u := &uniform{lo: lo, width: hi - lo, perElem: 1, top: float64(math.Nextafter32(float32(hi), float32(math.Inf(-1))))}
	if t.spec.DType == Float64 {
		u.perElem, u.top = 2, math.Nextafter(hi, math.Inf(-1))
	}
	u.top = max(u.top, lo)
	u.stream = s.Take(uint64(t.Elems()) * u.perElem)
	t.Bump()
	if t.writable() {
		generate(t, u)
	}
	return nil
}

// FillNormal sets the elements of a Float32 or Float64 tensor to normally distributed values (Box and Muller 1958) and
// advances s behind them. Float32 values come from 32 bits each and end at 6.7 std, Float64 ones from 53, at 8.6. An
// expanded view is refused. The last bit is that of Go's math.Log, which has code of its own on some architectures.
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
	if dt := t.spec.DType; dt != Float32 && dt != Float64 {
		return fmt.Errorf("tensor: fill %s %v: want float32 or float64", name, t.spec)
	}
	if t.expanded() {
		return fmt.Errorf("tensor: fill %s %v: %w", name, t.spec, errExpanded)
	}
	return nil
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
			x = float64(philox.Float32(w[i]))
		} else {
			x = philox.Float64(w[2*i], w[2*i+1])
		}
		dst[i] = min(u.lo+float64(u.width*x), u.top) // rounding may reach hi
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
		dst[i] = g.mean + float64(g.std*even)
		if i+1 < len(dst) {
			dst[i+1] = g.mean + float64(g.std*odd)
		}
	}
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
