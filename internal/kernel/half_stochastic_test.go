package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// stochastic rounds x n times.
func stochastic(h kernel.Half, x float32, n int) []uint16 {
	src, dst := make([]float32, n), make([]uint16, n)
	for i := range src {
		src[i] = x
	}
	h.RoundStochastic(dst, src, kernel.Words{Seed: 5, Stream: uint64(math.Float32bits(x))})
	return dst
}

// What a half type holds stays as it is, all 65,536 of them; NaN stays NaN.
func TestStochasticKeepsHalves(t *testing.T) { eachFamily(t, stochasticKeepsHalves) }

func stochasticKeepsHalves(t *testing.T) {
	for name, h := range halves {
		bits := make([]uint16, 1<<16)
		for i := range bits {
			bits[i] = uint16(i)
		}
		src, dst := make([]float32, len(bits)), make([]uint16, len(bits))
		h.Widen(src, bits)
		h.RoundStochastic(dst, src, kernel.Words{Seed: 1})
		for i, x := range src {
			if x != x {
				require.True(t, math.IsNaN(widen(h, dst[i])), "%s %#x", name, i)
				require.Equal(t, uint16(i)&0x8000, dst[i]&0x8000, "%s %#x: the sign", name, i)
			} else if dst[i] != uint16(i) {
				require.FailNowf(t, "not kept", "%s: %#x became %#x", name, i, dst[i])
			}
		}
	}
}

// Numbers between two halves become one of the two, up as often as they are far from the lower one: within 5 sigma.
func TestStochasticIsRightInTheMean(t *testing.T) {
	const n = 4096
	r := rand.New(rand.NewPCG(1, 2))
	for name, h := range halves {
		var xs []float64
		for range 60 {
			xs = append(xs, r.NormFloat64(), r.NormFloat64()*1e-3, r.NormFloat64()*1e-5, r.NormFloat64()*1e-7, r.NormFloat64()*1e4)
		}
		for _, v := range append(xs, 0x1p-24/3, -0x1p-25, 0x1p-14*(1-0x1p-13), 65519, -2.9999) {
			x := float32(v)
			lo, hi := neighbours(h, x)
			up := 0
			for _, b := range stochastic(h, x, n) {
				y := widen(h, b)
				if y != lo && y != hi || x < 0 != (b>>15 == 1) {
					require.FailNowf(t, "wrong neighbour", "%s: %v became %v: want %v or %v", name, x, y, lo, hi)
				}
				if y == hi && lo != hi {
					up++
				}
			}
			if lo == hi || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
				continue
			}
			p := (float64(x) - lo) / (hi - lo)
			require.InDelta(t, p*n, float64(up), 5*math.Sqrt(n*p*(1-p))+2, "%s: %v between %v and %v", name, x, lo, hi)
		}
	}
}

// neighbours are the halves next to x, from below and from above.
func neighbours(h kernel.Half, x float32) (lo, hi float64) {
	near := round(h, float64(x))
	at := widen(h, near)
	switch {
	case at == float64(x):
		return at, at
	case at < float64(x) == (near>>15 == 0): // one further from 0
		near++
	default:
		near--
	}
	other := widen(h, near)
	return math.Min(at, other), math.Max(at, other)
}

// Every family of instructions gives the same bits, of numbers of all kinds.
func TestStochasticIsOneFunction(t *testing.T) {
	const n = 1<<16 + 5
	r := rand.New(rand.NewPCG(3, 4))
	src := make([]float32, n)
	for i := range src {
		src[i] = math.Float32frombits(r.Uint32())
		if i%2 == 0 {
			src[i] = float32(r.NormFloat64() * math.Pow(2, float64(r.IntN(44)-27)))
		}
	}
	want := map[string][]uint16{}
	eachFamily(t, func(t *testing.T) {
		for name, h := range halves {
			got := make([]uint16, n)
			h.RoundStochastic(got, src, kernel.Words{Seed: 9, Stream: 1})
			if want[name] == nil {
				want[name] = got
			}
			for i := range got {
				if got[i] != want[name][i] {
					require.FailNowf(t, "other bits", "%s: %v became %#x and %#x", name, src[i], got[i], want[name][i])
				}
			}
		}
	})
}

// Whatever the cut, an element gets its own word.
func TestStochasticByPieces(t *testing.T) {
	const n = 1000
	src, whole, parts := make([]float32, n), make([]uint16, n), make([]uint16, n)
	for i := range src {
		src[i] = 1 + float32(i)/3
	}
	words := kernel.Words{Seed: 3, Stream: 9, Offset: 77}
	for _, h := range halves {
		h.RoundStochastic(whole, src, words)
		for _, cut := range []int{1, 130, 999} {
			h.RoundStochastic(parts[:cut], src[:cut], words)
			h.RoundStochastic(parts[cut:], src[cut:], words.From(cut))
			require.Equal(t, whole, parts)
		}
	}
}

// Beyond the type there is infinity only; infinities stay.
func TestStochasticBeyond(t *testing.T) {
	for _, x := range []float32{65536, 1e30, float32(math.Inf(1))} {
		for _, b := range stochastic(kernel.F16, -x, 10) {
			require.Equal(t, uint16(0xfc00), b)
		}
	}
	for _, b := range stochastic(kernel.BF16, float32(math.Inf(-1)), 10) {
		require.Equal(t, uint16(0xff80), b)
	}
}
