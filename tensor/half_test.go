package tensor_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// half is a half type and what a test knows of it without the package's help.
type half struct {
	dtype tensor.DType
	inf   uint16
	value func(bits uint16) float64
}

func halves() []half {
	return []half{
		{tensor.Float16, 0x7c00, func(b uint16) float64 { return float64(float16.Frombits(b).Float32()) }},
		{tensor.BFloat16, 0x7f80, func(b uint16) float64 { return float64(math.Float32frombits(uint32(b) << 16)) }},
	}
}

// nearest is the half nearest to v, the even one of two, compared exactly with the middle between neighbours.
func (h half) nearest(v *big.Float) uint16 {
	size := new(big.Float).Abs(v)
	found := sort.Search(int(h.inf), func(i int) bool {
		next := 2*h.value(h.inf-1) - h.value(h.inf-2) // what would follow the largest
		if i+1 < int(h.inf) {
			next = h.value(uint16(i + 1))
		}
		c := size.Cmp(big.NewFloat((h.value(uint16(i)) + next) / 2))
		return c < 0 || c == 0 && i%2 == 0
	})
	if v.Signbit() {
		found |= 0x8000
	}
	return uint16(found)
}

// around gives values at and next to halves and the middles between them, where rounding is decided, and some anywhere.
func (h half) around(r *rand.Rand, n int) []float64 {
	var out []float64
	for range n {
		i := uint16(r.IntN(int(h.inf - 1)))
		a, b := h.value(i), h.value(i+1)
		middle, ulp := (a+b)/2, (b - a)
		for _, x := range []float64{
			a, middle, math.Nextafter(middle, inf), math.Nextafter(middle, 0), middle + ulp*0x1p-20, middle - ulp*0x1p-20,
			float64(float32(middle + ulp*r.Float64())), a + ulp*r.Float64(), math.Ldexp(r.Float64(), r.IntN(300)-150),
		} {
			if r.IntN(2) == 0 {
				x = -x
			}
			out = append(out, x)
		}
	}
	return out
}

func bits(x *tensor.Tensor) (out []uint16) {
	if x.DType() == tensor.Float16 {
		for _, h := range tensor.Data[float16.Float16](x) {
			out = append(out, h.Bits())
		}
		return out
	}
	for _, h := range tensor.Data[tensor.BF16](x) {
		out = append(out, uint16(h))
	}
	return out
}

// What goes to a half is rounded once, whatever it comes from and whichever function does it.
func TestHalfIsRoundedOnce(t *testing.T) {
	d := device(t, memory.Config{})
	for _, h := range halves() {
		r := rand.New(rand.NewPCG(6, uint64(h.inf)))
		wide := h.around(r, 500)
		var ints []int64
		var ints32 []int32
		for _, v := range wide {
			if math.Abs(v) < 1<<62 {
				ints = append(ints, int64(v), int64(v)+1, int64(v)-1)
			}
			if math.Abs(v) < 1<<30 {
				ints32 = append(ints32, int32(v), int32(v)+1)
			}
		}
		for range 500 { // sums of powers of two that lie far apart are what is hard for integers
			var v int64
			for range 3 {
				v |= 1 << r.IntN(63)
			}
			ints = append(ints, v, -v, v-1)
		}
		ints = append(ints, math.MinInt64, math.MaxInt64, 0)
		single := make([]float32, len(wide))
		for i, v := range wide {
			single[i] = float32(v)
		}
		rounds(t, d, h, wide, func(v float64) *big.Float { return big.NewFloat(v) })
		rounds(t, d, h, single, func(v float32) *big.Float { return big.NewFloat(float64(v)) })
		rounds(t, d, h, ints, func(v int64) *big.Float { return new(big.Float).SetInt64(v) })
		rounds(t, d, h, ints32, func(v int32) *big.Float { return new(big.Float).SetInt64(int64(v)) })

		one := zeros(t, d, h.dtype)
		for _, v := range wide[:900] {
			want := h.nearest(big.NewFloat(v))
			require.NoError(t, tensor.Fill(one, v))
			require.Equal(t, want, bits(one)[0], "fill %s with %v", h.dtype, v)
			require.NoError(t, tensor.FillRange(one, v, 1))
			require.Equal(t, want, bits(one)[0], "range %s from %v", h.dtype, v)
		}
	}
}

func rounds[T tensor.Elem](t *testing.T, d *memory.Device, h half, in []T, exact func(T) *big.Float) {
	t.Helper()
	x, err := from(t, d, in, len(in)).To(h.dtype, memory.Other, site)
	require.NoError(t, err)
	defer x.Release()
	for i, got := range bits(x) {
		if want := h.nearest(exact(in[i])); want != got {
			require.Failf(t, "rounded wrongly", "%T %v to %s: want %#04x, got %#04x", in[i], in[i], h.dtype, want, got)
		}
	}
}

// Every half, NaN apart, comes back from every float type that holds it, and is what Data says it is.
func TestHalfRoundTrips(t *testing.T) {
	d := device(t, memory.Config{})
	const n = 1 << 16
	for _, h := range halves() {
		x := zeros(t, d, h.dtype, n)
		f16, bf := tensor.Over(x.Buffer(), tensor.Of(tensor.Float16, n)), tensor.Over(x.Buffer(), tensor.Of(tensor.BFloat16, n))
		for i := range n {
			tensor.Data[float16.Float16](&f16)[i], tensor.Data[tensor.BF16](&bf)[i] = float16.Frombits(uint16(i)), tensor.BF16(i)
		}
		for _, dt := range []tensor.DType{tensor.Float32, tensor.Float64} {
			y, err := x.To(dt, memory.Other, site)
			require.NoError(t, err)
			back, err := y.To(h.dtype, memory.Other, site)
			require.NoError(t, err)
			for i, got := range bits(back) {
				v, want := h.value(uint16(i)), uint16(i)
				if v != v {
					want |= h.inf >> 1 &^ h.inf // the upper bit of the mantissa: quiet
				}
				if got != want || math.Float64bits(v)&^nanBits(v) != math.Float64bits(y.At(i))&^nanBits(v) {
					require.Failf(t, "changed", "%#04x of %s is %v in %s and comes back as %#04x", i, h.dtype, y.At(i), dt, got)
				}
			}
			y.Release()
			back.Release()
		}
	}
}

func TestBF16(t *testing.T) {
	require.Equal(t, tensor.BF16(0x3f80), tensor.ToBF16(1+0x1p-8))
	require.Equal(t, tensor.BF16(0xff80), tensor.ToBF16(-math.MaxFloat32))
	require.Equal(t, float32(0x1p-133), tensor.BF16(1).Float32())
	require.Equal(t, "[0.1 -2 9e-41 3.39e+38 NaN -Inf]",
		fmt.Sprint([]tensor.BF16{0x3dcd, 0xc000, 1, 0x7f7f, 0x7fc0, 0xff80}))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.ToBF16(3) }))
}

func TestHalfDoesNotAllocate(t *testing.T) {
	d := device(t, memory.Config{})
	h, x, i := zeros(t, d, tensor.BFloat16, 40, 50), zeros(t, d, tensor.Float64, 50, 40), zeros(t, d, tensor.Int64, 40, 50)
	v := must(t)(x.Transpose(0, 1))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Convert(h, v) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Convert(v, h) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Convert(h, i) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Fill(h, 3) }))
}

// Random fills give Float32's values, rounded, and leave the stream where Float32 does.
func TestHalfRandomIsSingleRounded(t *testing.T) {
	d := device(t, memory.Config{})
	for _, h := range halves() {
		for name, fill := range map[string]func(x *tensor.Tensor, s *tensor.Stream) error{
			"uniform": func(x *tensor.Tensor, s *tensor.Stream) error { return tensor.FillUniform(x, s, -0.1, 0.1) },
			"normal":  func(x *tensor.Tensor, s *tensor.Stream) error { return tensor.FillNormal(x, s, 0, 0.02) },
		} {
			x, y := zeros(t, d, h.dtype, 37, 41), zeros(t, d, tensor.Float32, 37, 41)
			s, u := tensor.Stream{Seed: 4}, tensor.Stream{Seed: 4}
			require.NoError(t, fill(x, &s), name)
			require.NoError(t, fill(y, &u), name)
			require.Equal(t, u, s)
			want, err := y.To(h.dtype, memory.Other, site)
			require.NoError(t, err)
			differ := 0
			for i, b := range bits(want) {
				if got := bits(x)[i]; got != b { // where rounding came to 0.1
					require.Equal(t, "uniform", name)
					require.Equal(t, b-1, got)
					differ++
				}
			}
			require.Less(t, differ, 20)
			want.Release()

			v := must(t)(zeros(t, d, h.dtype, 41, 37).Transpose(0, 1))
			s = tensor.Stream{Seed: 4}
			require.NoError(t, fill(v, &s), name)
			require.True(t, tensor.Equal(x, v))
		}
	}
}

// hi does not occur though half of all values above the last half below it are rounded up.
func TestHalfUniformStaysBelow(t *testing.T) {
	d := device(t, memory.Config{})
	for _, c := range []struct {
		dtype         tensor.DType
		lo, hi, below float64
	}{
		{tensor.BFloat16, 0, 1, 1 - 0x1p-8},
		{tensor.Float16, 0, 1, 1 - 0x1p-11},
		{tensor.BFloat16, 256, 258.5, 258}, // 258.5 is between two
		{tensor.BFloat16, -258, -256, -258},
		{tensor.Float16, -0x1p-23, 0, -0x1p-24},
		{tensor.Float16, 3, 3, 3},
		{tensor.Float16, -65504, -65504, -65504},
		{tensor.Float16, 65472, 65504, 65472},
	} {
		x := zeros(t, d, c.dtype, 1<<12)
		s := tensor.Stream{Seed: 3}
		require.NoError(t, tensor.FillUniform(x, &s, c.lo, c.hi))
		least, most := inf, -inf
		for _, v := range values(x) {
			least, most = min(least, v), max(most, v)
		}
		require.GreaterOrEqual(t, least, c.lo, "%v", c)
		require.Equal(t, c.below, most, "%v", c)
	}
}

func TestHalfRange(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float16, 3, 700)
	require.NoError(t, tensor.FillRange(must(t)(x.Slice(1, 100, 700)), -5, 3))
	require.Zero(t, x.At(0, 99))
	require.Equal(t, -5.0, x.At(0, 100))
	require.Equal(t, 1792.0, x.At(0, 699))
	require.Equal(t, 5392.0, x.At(2, 699), "5392 lies between 5388 and 5392: a step is 4")
}

func BenchmarkConvert(b *testing.B) {
	d := device(b, memory.Config{})
	const n = 1 << 16
	for _, p := range [][2]tensor.DType{
		{tensor.Float32, tensor.BFloat16}, {tensor.BFloat16, tensor.Float32}, {tensor.Float32, tensor.Float16},
		{tensor.Float16, tensor.Float32}, {tensor.Float64, tensor.BFloat16}, {tensor.Int64, tensor.BFloat16},
	} {
		x, y := zeros(b, d, p[0], n), zeros(b, d, p[1], n)
		b.Run(fmt.Sprintf("%v-%v", p[0], p[1]), func(b *testing.B) {
			for b.Loop() {
				if err := tensor.Convert(y, x); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/elem")
		})
	}
}
