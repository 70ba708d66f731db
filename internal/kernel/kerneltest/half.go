package kerneltest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
)

// F16ToF32 tests all float16 values against x448/float16, bit for bit, at every length around a cut.
func F16ToF32(t *testing.T, widen func(dst []float32, src []uint16)) {
	widens(t, widen, func(h uint16) float32 { return float16.Frombits(h).Float32() })
}

// BF16ToF32 tests all bfloat16 values, signalling NaN included, whose bits must be those of the float32.
func BF16ToF32(t *testing.T, widen func(dst []float32, src []uint16)) {
	widens(t, widen, func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) })
}

// F32ToF16 tests against x448/float16, bit for bit: all halves and what lies around each, ties included, named corners,
// and values of all magnitudes.
func F32ToF16(t *testing.T, round func(dst []uint16, src []float32)) {
	want := func(x float32) uint16 { return float16.Fromfloat32(x).Bits() }
	rounds(t, round, want, func(h uint16) float32 { return float16.Frombits(h).Float32() })
	for _, c := range []struct {
		in   float32
		want uint16
	}{
		{65504, 0x7bff},
		{65519, 0x7bff},
		{math.Nextafter32(65520, 0), 0x7bff},
		{65520, 0x7c00}, // the tie, to an even mantissa
		{-65520, 0xfc00},
		{65536, 0x7c00},
		{0x1p-14, 0x0400},
		{0x1p-24, 0x0001},
		{0x1p-25, 0x0000}, // the tie, to zero
		{math.Nextafter32(0x1p-25, 1), 0x0001},
		{0x3p-25, 0x0002}, // the tie, away from zero
		{0x1p-24 * 0x7ff / 2, 0x0400},
		{1 + 0x1p-11, 0x3c00},
		{1 + 0x3p-11, 0x3c02},
		{1e-8, 0x0000}, // Adam's eps
	} {
		require.Equal(t, c.want, round1(round, c.in), "%v", c.in)
	}
	payloads(t, round, 0x7c00, 13)
}

// F32ToBF16 tests against a reference that compares with the neighbours in float64: all halves and what lies around each,
// named corners, and values of all magnitudes.
func F32ToBF16(t *testing.T, round func(dst []uint16, src []float32)) {
	rounds(t, round, nearestBF16, func(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) })
	for _, c := range []struct {
		in   float32
		want uint16
	}{
		{0x1.fep127, 0x7f7f},
		{math.Nextafter32(0x1.ffp127, 0), 0x7f7f},
		{0x1.ffp127, 0x7f80}, // the tie, to an even mantissa
		{-math.MaxFloat32, 0xff80},
		{1 + 0x1p-8, 0x3f80}, // 1 + eps/2 is 1
		{1 + 0x3p-8, 0x3f82},
		{0x1p-126, 0x0080},
		{0x1p-133, 0x0001},
		{0x1p-134, 0x0000}, // the tie, to zero
		{0x1p-134 + 0x1p-149, 0x0001},
		{-math.SmallestNonzeroFloat32, 0x8000},
	} {
		require.Equal(t, c.want, round1(round, c.in), "%v", c.in)
	}
	payloads(t, round, 0x7f80, 16)
}

// nearestBF16 is the bfloat16 nearest to x, the even one of two. NaN is left to payloads.
func nearestBF16(x float32) uint16 {
	bits := math.Float32bits(x)
	below := uint16(bits >> 16) // toward zero
	at := func(h uint16) float64 {
		if h&0x7fff == 0x7f80 {
			return math.Copysign(0x1p128, float64(x)) // what would follow the largest
		}
		return float64(math.Float32frombits(uint32(h) << 16))
	}
	if math.IsInf(float64(x), 0) {
		return below
	}
	down, up := math.Abs(float64(x)-at(below)), math.Abs(at(below+1)-float64(x))
	if up < down || up == down && below%2 == 1 {
		return below + 1
	}
	return below
}

// widens runs all 65,536 halves and then shorter slices through widen.
func widens(t *testing.T, widen func([]float32, []uint16), want func(uint16) float32) {
	t.Helper()
	all := make([]uint16, 1<<16)
	for i := range all {
		all[i] = uint16(i)
	}
	for _, n := range append(Sizes(), len(all)) {
		src := all[len(all)/2-n/2:][:n]
		dst := filled(n+1, float32(7))
		widen(dst[:n], src)
		for i, h := range src {
			if a, b := math.Float32bits(want(h)), math.Float32bits(dst[i]); a != b {
				require.Failf(t, "bits differ", "half %#04x: want float32 %#08x, got %#08x", h, a, b)
			}
		}
		require.Equal(t, float32(7), dst[n], "wrote beyond its end")
	}
}

// rounds runs through round: every half, the tie to its neighbour, what lies on both sides of either; and random bits.
func rounds(t *testing.T, round func([]uint16, []float32), want func(float32) uint16, value func(uint16) float32) {
	t.Helper()
	var src []float32
	for i := range 1 << 16 {
		a, b := value(uint16(i)), value(uint16(i^1))
		for _, x := range []float32{a, float32(float64(a)/2 + float64(b)/2)} { // halved first: no overflow
			src = append(src, x, math.Nextafter32(x, float32(math.Inf(1))), math.Nextafter32(x, float32(math.Inf(-1))))
		}
		above := math.Float32frombits(math.Float32bits(a) + (math.Float32bits(value(uint16(i+1)))-math.Float32bits(a))/2)
		src = append(src, above)
	}
	r := rand.New(rand.NewPCG(5, 5))
	for range 1 << 18 {
		src = append(src, math.Float32frombits(r.Uint32()))
	}
	for i, x := range src {
		if x != x {
			src[i] = 0
		}
	}
	for _, n := range append(Sizes(), len(src)) {
		dst := filled(n+1, uint16(7))
		round(dst[:n], src[:n])
		for i, x := range src[:n] {
			if w := want(x); w != dst[i] {
				require.Failf(t, "bits differ", "float32 %v (%#08x): want half %#04x, got %#04x", x, math.Float32bits(x), w, dst[i])
			}
		}
		require.Equal(t, uint16(7), dst[n], "wrote beyond its end")
	}
}

// payloads asks that NaN stays NaN, quiet, with its sign and the upper bits of its payload. inf is the half's infinity,
// shift what the mantissa loses.
func payloads(t *testing.T, round func([]uint16, []float32), inf uint16, shift int) {
	t.Helper()
	mantissa := ^inf & 0x7fff
	quiet := (mantissa + 1) / 2
	for _, payload := range []uint32{1, 1 << 12, 1 << 15, 1 << 16, 0x155555, 0x3fffff, 1 << 22, 1<<22 | 1, 0x7fffff} {
		for _, sign := range []uint32{0, 1 << 31} {
			x := math.Float32frombits(sign | 0x7f800000 | payload)
			want := uint16(sign>>16) | inf | quiet | uint16(payload>>shift)&mantissa
			require.Equal(t, want, round1(round, x), "NaN %#08x", math.Float32bits(x))
		}
	}
}

// round1 rounds one value, away from the start of a long slice, so that vector code takes it.
func round1(round func([]uint16, []float32), x float32) uint16 {
	dst := make([]uint16, 64)
	round(dst, filled(64, x))
	return dst[33]
}
