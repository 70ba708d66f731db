package tensor_test

import (
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestFill(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 3, 4)
	require.NoError(t, tensor.Fill(must(t)(x.Slice(1, 1, 3)), 2.5))
	require.Equal(t, []float64{0, 2.5, 2.5, 0, 0, 2.5, 2.5, 0, 0, 2.5, 2.5, 0}, values(x))
	require.NoError(t, tensor.Fill(must(t)(x.Select(1, 0)), math.Copysign(0, -1)))
	require.True(t, math.Signbit(x.At(2, 0)))
	require.Equal(t, uint32(2), x.Version(), "through whichever view")

	for _, dt := range tensor.DTypes() {
		y := zeros(t, d, dt, 2)
		require.NoError(t, tensor.Fill(y, 0))
		require.NoError(t, tensor.Fill(y, 3))
		if dt == tensor.Bool {
			require.Equal(t, []float64{1, 1}, values(y))
		} else {
			require.Equal(t, []float64{3, 3}, values(y))
		}
	}
	wide := must(t)(zeros(t, d, tensor.Float32, 1).Expand(3))
	require.EqualError(t, tensor.Fill(wide, 1),
		"tensor: fill float32[3]: the destination is expanded: several of its elements are one in memory")
}

func TestFillRange(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Int64, 20, 30)
	require.NoError(t, tensor.FillRange(must(t)(x.Transpose(0, 1)), -5, 2))
	require.Equal(t, -5.0, x.At(0, 0))
	require.Equal(t, -5.0+2*20, x.At(0, 1))
	require.Equal(t, -5.0+2*599, x.At(19, 29))

	y := zeros(t, d, tensor.Float32, 4)
	require.NoError(t, tensor.FillRange(y, 0, 0.1))
	require.Equal(t, []float32{0, 0.1, 0.2, 0.3}, tensor.Data[float32](y))
	u := zeros(t, d, tensor.Uint8, 4)
	require.NoError(t, tensor.FillRange(u, 254, 1))
	require.Equal(t, []uint8{254, 255, 255, 255}, tensor.Data[uint8](u))
	require.EqualError(t, tensor.FillRange(zeros(t, d, tensor.Bool, 2), 0, 1),
		"tensor: fill range bool[2]: want a float or an integer dtype")
}

// fill is a random fill and what is known of it.
type fill struct {
	name      string
	dtype     tensor.DType
	run       func(x *tensor.Tensor, s *tensor.Stream) error
	cut       int    // pieces may begin at multiples of it
	perElem   uint64 // words
	mean, std float64
	golden    []float64 // of seed 42, stream 1, offset 4
}

func (f fill) words(n int) uint64 { return uint64((n+f.cut-1)/f.cut*f.cut) * f.perElem }

func fills() []fill {
	uniform := func(x *tensor.Tensor, s *tensor.Stream) error { return tensor.FillUniform(x, s, -1, 3) }
	normal := func(x *tensor.Tensor, s *tensor.Stream) error { return tensor.FillNormal(x, s, 2, 0.5) }
	width := 4 / math.Sqrt(12)
	return []fill{
		{"uniform32", tensor.Float32, uniform, 1, 1, 1, width, []float64{-0.484401464, 2.9659493, -0.577456474}},
		{"uniform64", tensor.Float64, uniform, 1, 2, 1, width, []float64{-0.48440141, -0.577456254, -0.148849375}},
		{"normal32", tensor.Float32, normal, 2, 1, 2, 0.5, []float64{3.01065969, 1.94589174, 2.16130829}},
		{"normal64", tensor.Float64, normal, 2, 2, 2, 0.5, []float64{2.20691036, 2.16182444, 1.67852317}},
	}
}

// Values are a function of stream and row-major index: filled in pieces, through strides, and at any GOMAXPROCS they are
// the same.
func TestRandomFillsDependOnIndexOnly(t *testing.T) {
	d := device(t, memory.Config{})
	const rows, cols = 29, 37
	for _, f := range fills() {
		t.Run(f.name, func(t *testing.T) {
			start := tensor.Stream{Seed: 7, ID: 9, Offset: 12}
			whole := zeros(t, d, f.dtype, rows, cols)
			s := start
			require.NoError(t, f.run(whole, &s))
			words := f.words(rows * cols)
			require.Equal(t, start.Offset+(words+3)/4*4, s.Offset, "behind the words, at a multiple of 4")

			strided := zeros(t, d, f.dtype, cols, rows+2)
			v := must(t)(must(t)(strided.Slice(1, 1, rows+1)).Transpose(0, 1))
			s = start
			require.NoError(t, f.run(v, &s))
			require.True(t, tensor.Equal(whole, v))

			flat := must(t)(zeros(t, d, f.dtype, rows, cols).Reshape(-1))
			for lo := 0; lo < rows*cols; {
				hi := min(lo+f.cut*(1+lo%301), rows*cols)
				s := tensor.Stream{Seed: 7, ID: 9, Offset: 12 + uint64(lo)*f.perElem}
				require.NoError(t, f.run(must(t)(flat.Slice(0, lo, hi)), &s))
				lo = hi
			}
			require.True(t, tensor.Equal(whole, must(t)(flat.Reshape(rows, cols))))

			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			again := zeros(t, d, f.dtype, rows, cols)
			s = start
			require.NoError(t, f.run(again, &s))
			require.True(t, tensor.Equal(whole, again))

			s = tensor.Stream{Seed: 7, ID: 10, Offset: 12}
			require.NoError(t, f.run(again, &s))
			require.False(t, tensor.Equal(whole, again))
		})
	}
}

// Mean, deviation, and for the normal the fourth moment and the correlation inside a pair, within 5 sigma.
func TestRandomMoments(t *testing.T) {
	d := device(t, memory.Config{})
	const n = 1 << 17
	for _, f := range fills() {
		t.Run(f.name, func(t *testing.T) {
			x := zeros(t, d, f.dtype, n)
			s := tensor.Stream{Seed: 1}
			require.NoError(t, f.run(x, &s))
			var sum, sum2, sum4, pair float64
			prev := 0.0
			for i := range n {
				z := (x.At(i) - f.mean) / f.std
				sum, sum2, sum4 = sum+z, sum2+z*z, sum4+z*z*z*z
				if i%2 == 1 {
					pair += z * prev
				}
				prev = z
			}
			root := math.Sqrt(n)
			require.InDelta(t, 0, sum/n, 5/root)
			require.InDelta(t, 1, sum2/n, 5*math.Sqrt2/root)
			require.InDelta(t, 0, pair/(n/2), 5*math.Sqrt2/root)
			fourth := 3.0
			if f.cut == 1 {
				fourth = 9.0 / 5 // of a uniform
			}
			require.InDelta(t, fourth, sum4/n, 5*math.Sqrt(96)/root)
		})
	}
}

// hi itself must not occur, also where rounding would give it.
func TestUniformStaysBelow(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 1<<12)
	s := tensor.Stream{Seed: 3}
	lo, hi := float64(1<<24), float64(1<<24+4) // float32 has two values in between
	require.NoError(t, tensor.FillUniform(x, &s, lo, hi))
	data := tensor.Data[float32](x)
	require.Equal(t, float32(lo), slices.Min(data))
	require.Equal(t, float32(1<<24+2), slices.Max(data))

	require.NoError(t, tensor.FillUniform(x, &s, 5, 5))
	require.Equal(t, float32(5), slices.Min(data))
	require.Equal(t, float32(5), slices.Max(data))
}

func TestRandomErrors(t *testing.T) {
	d := device(t, memory.Config{})
	x, i, h := zeros(t, d, tensor.Float32, 3), zeros(t, d, tensor.Int32, 3), zeros(t, d, tensor.Float16, 3)
	var s tensor.Stream
	for _, c := range []struct {
		err  error
		want string
	}{
		{tensor.FillUniform(i, &s, 0, 1), "tensor: fill uniform int32[3]: want a float dtype"},
		{tensor.FillNormal(i, &s, 0, 1), "tensor: fill normal int32[3]: want a float dtype"},
		{tensor.FillUniform(h, &s, 0, 65520), "tensor: fill uniform float16[3]: 0 or 65520 is beyond the largest float16"},
		{tensor.FillUniform(x, &s, -1e39, 0), "tensor: fill uniform float32[3]: -1e+39 or 0 is beyond the largest float32"},
		{tensor.FillUniform(x, &s, 2, 1), "tensor: fill uniform float32[3]: want finite lo <= hi, got 2 and 1"},
		{tensor.FillUniform(x, &s, nan, 1), "tensor: fill uniform float32[3]: want finite lo <= hi, got NaN and 1"},
		{tensor.FillUniform(x, &s, 0, inf), "tensor: fill uniform float32[3]: want finite lo <= hi, got 0 and +Inf"},
		{tensor.FillUniform(x, &s, inf, inf), "tensor: fill uniform float32[3]: want finite lo <= hi, got +Inf and +Inf"},
		{tensor.FillNormal(x, &s, 0, -1), "tensor: fill normal float32[3]: want finite mean and std >= 0, got 0 and -1"},
		{tensor.FillNormal(x, &s, nan, 1), "tensor: fill normal float32[3]: want finite mean and std >= 0, got NaN and 1"},
		{
			tensor.FillNormal(must(t)(must(t)(x.Slice(0, 0, 1)).Expand(4)), &s, 0, 1),
			"tensor: fill normal float32[4]: the destination is expanded: several of its elements are one in memory",
		},
	} {
		require.EqualError(t, c.err, c.want)
	}
	require.Zero(t, s, "what was refused took nothing")
	require.Zero(t, x.Version())
}

func TestStreamTake(t *testing.T) {
	s := tensor.Stream{Seed: 1, ID: 2, Offset: 8}
	require.Equal(t, tensor.Stream{Seed: 1, ID: 2, Offset: 8}, s.Take(5))
	require.Equal(t, uint64(16), s.Offset)
	s.Take(0)
	require.Equal(t, uint64(16), s.Offset)
	s.Take(4)
	require.Equal(t, uint64(20), s.Offset)
}

// Values that saved runs rely on, computed by another program from the layout that random.go states.
func TestRandomGolden(t *testing.T) {
	d := device(t, memory.Config{})
	for _, f := range fills() {
		x := zeros(t, d, f.dtype, 3)
		s := tensor.Stream{Seed: 42, ID: 1, Offset: 4}
		require.NoError(t, f.run(x, &s))
		require.InDeltaSlice(t, f.golden, values(x), 1e-7, f.name) // not bits: math.Log's last one is the machine's
	}
}

func BenchmarkFillNormal(b *testing.B) {
	d := device(b, memory.Config{})
	x := zeros(b, d, tensor.Float32, 1<<14)
	b.SetBytes(x.Bytes())
	for b.Loop() {
		s := tensor.Stream{Seed: 1}
		if err := tensor.FillNormal(x, &s, 0, 1); err != nil {
			b.Fatal(err)
		}
	}
}
