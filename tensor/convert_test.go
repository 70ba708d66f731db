package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

var (
	inf    = math.Inf(1)
	nan    = math.NaN()
	negate = math.Copysign(0, -1)
)

// The table of conversions: a value of a dtype, and what it becomes in each other. Int64 extremes are read back as
// float64, which rounds 2^63-1 up to 2^63: the exact ones are below.
func TestConvertTable(t *testing.T) {
	const f32, f64 = tensor.Float32, tensor.Float64
	const f16, b16 = tensor.Float16, tensor.BFloat16
	const i64, i32, u8, boolean = tensor.Int64, tensor.Int32, tensor.Uint8, tensor.Bool
	d := device(t, memory.Config{})
	for _, c := range []struct {
		from tensor.DType
		in   float64
		to   tensor.DType
		want float64
	}{
		{f64, 0.1, f32, float64(float32(0.1))},
		{f64, 1e300, f32, inf},
		{f64, -1e300, f32, -inf},
		{f64, 1e-300, f32, 0},
		{f64, nan, f32, nan},
		{f64, negate, f32, negate},
		{f32, nan, f64, nan},
		{f32, -inf, f64, -inf},
		{f32, negate, f64, negate},
		{f32, 0.1, f64, float64(float32(0.1))},

		{f32, 2.9, i32, 2},
		{f32, -2.9, i32, -2},
		{f32, negate, i32, 0},
		{f32, nan, i64, 0},
		{f64, nan, i32, 0},
		{f64, nan, u8, 0},
		{f64, inf, i64, math.MaxInt64},
		{f64, -inf, i64, math.MinInt64},
		{f64, 1e19, i64, math.MaxInt64},
		{f64, -1e19, i64, math.MinInt64},
		{f64, 1 << 62, i64, 1 << 62},
		{f32, 1 << 63, i64, math.MaxInt64},
		{f32, 3e9, i32, math.MaxInt32},
		{f64, 2147483647.5, i32, math.MaxInt32},
		{f64, 2147483646.5, i32, math.MaxInt32 - 1},
		{f64, -2147483648.5, i32, math.MinInt32},
		{f32, -inf, i32, math.MinInt32},
		{f32, 255.9, u8, 255},
		{f32, 254.9, u8, 254},
		{f32, 256, u8, 255},
		{f32, -0.9, u8, 0},
		{f32, -1, u8, 0},
		{f32, inf, u8, 255},

		{i64, -5, f32, -5},
		{i64, 1<<24 + 1, f32, 1 << 24},
		{i32, math.MinInt32, f64, math.MinInt32},
		{u8, 200, f32, 200},
		{i64, 1 << 40, i32, math.MaxInt32},
		{i64, -1 << 40, i32, math.MinInt32},
		{i64, -7, i32, -7},
		{i64, 300, u8, 255},
		{i32, -1, u8, 0},
		{u8, 255, i64, 255},
		{u8, 255, i32, 255},
		{i32, -9, i64, -9},

		{f32, nan, boolean, 1},
		{f32, negate, boolean, 0},
		{f64, 5e-324, boolean, 1},
		{f32, 0.5, boolean, 1},
		{i64, 256, boolean, 1},
		{i32, 0, boolean, 0},
		{u8, 2, boolean, 1},
		{boolean, 1, f32, 1},
		{boolean, 1, f64, 1},
		{boolean, 0, i64, 0},
		{boolean, 1, i32, 1},
		{boolean, 1, u8, 1},

		{f32, 65519, f16, 65504},
		{f32, 65520, f16, inf},
		{f32, -65520, f16, -inf},
		{f64, 1e300, f16, inf},
		{f64, 1e300, b16, inf},
		{f64, 1e-300, f16, 0},
		{f64, -1e-300, b16, negate},
		{f32, 1e-8, f16, 0},
		{f32, 0x1p-24, f16, 0x1p-24},
		{f64, 0x1p-25, f16, 0},
		{f64, 0x1p-25 + 0x1p-70, f16, 0x1p-24}, // not the tie that float32 makes of it
		{f64, 1 + 0x1p-11 + 0x1p-40, f16, 1 + 0x1p-10},
		{f64, 1 + 0x3p-11 - 0x1p-40, f16, 1 + 0x1p-10},
		{f64, 1 + 0x1p-8 + 0x1p-40, b16, 1 + 0x1p-7},
		{f64, -1 - 0x1p-8 - 0x1p-40, b16, -1 - 0x1p-7},
		{f32, 1 + 0x1p-8, b16, 1},
		{f64, 0x1p-134 + 0x1p-170, b16, 0x1p-133},
		{f64, 65520 - 0x1p-30, f16, 65504},
		{f64, nan, f16, nan},
		{f32, nan, b16, nan},
		{f32, inf, b16, inf},
		{f16, nan, f64, nan},
		{f16, -inf, f32, -inf},
		{f16, negate, f64, negate},
		{f16, 0x1p-24, f64, 0x1p-24},
		{f16, 0.1, b16, 0x1.9ap-4},
		{b16, 1e30, f16, inf},
		{b16, 0x1p-24, f16, 0x1p-24},
		{b16, 0x1p-26, f16, 0},
		{i32, 1<<24 + 1<<16 + 1, b16, 1<<24 + 1<<17}, // a tie and one
		{i64, 1<<40 + 1<<32, b16, 1 << 40},           // a tie
		{i64, 2049, f16, 2048},
		{i64, -2051, f16, -2052},
		{i32, 1 << 20, f16, inf},
		{u8, 255, f16, 255},
		{u8, 255, b16, 255},
		{boolean, 1, f16, 1},
		{f16, 2.9, i32, 2},
		{f16, -inf, i32, math.MinInt32},
		{b16, 1e30, i64, math.MaxInt64},
		{b16, nan, i64, 0},
		{f16, 300, u8, 255},
		{f16, nan, boolean, 1},
		{b16, negate, boolean, 0},
		{b16, 0x1p-133, boolean, 1},
	} {
		src, dst := zeros(t, d, c.from, 3), zeros(t, d, c.to, 3)
		require.NoError(t, tensor.Fill(src, c.in))
		require.NoError(t, tensor.Convert(dst, src))
		for _, got := range values(dst) {
			require.Equal(t, math.Float64bits(c.want)&^nanBits(c.want), math.Float64bits(got)&^nanBits(got),
				"%v of %v to %v: want %v, got %v", c.in, c.from, c.to, c.want, got)
		}
	}
}

// nanBits masks what may differ between two NaNs.
func nanBits(v float64) uint64 {
	if v != v {
		return 1<<63 | 1<<52 - 1
	}
	return 0
}

func TestConvertExactInt64(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, []float64{inf, -inf, 1 << 63, -1 << 63, 9007199254740993}, 5)
	y, err := x.To(tensor.Int64, memory.Temporary, site)
	require.NoError(t, err)
	defer y.Release()
	require.Equal(t, []int64{math.MaxInt64, math.MinInt64, math.MaxInt64, math.MinInt64, 9007199254740992},
		tensor.Data[int64](y))
}

// All pairs, strided on both sides, against the same conversion of the contiguous tensor.
func TestConvertStrided(t *testing.T) {
	d := device(t, memory.Config{})
	for _, a := range tensor.DTypes() {
		for _, b := range tensor.DTypes() {
			src, dst := zeros(t, d, a, 3, 4), zeros(t, d, b, 4, 3)
			if a != tensor.Bool {
				require.NoError(t, tensor.FillRange(src, 0, 1))
			}
			v := must(t)(dst.Transpose(0, 1))
			require.NoError(t, tensor.Convert(v, src), "%v to %v", a, b)
			flat := zeros(t, d, b, 3, 4)
			require.NoError(t, tensor.Convert(flat, src))
			require.True(t, tensor.Equal(flat, v), "%v to %v", a, b)
		}
	}
}

func TestConvertUnknown(t *testing.T) {
	d := device(t, memory.Config{})
	_, err := zeros(t, d, tensor.Float32, 2).To(99, memory.Other, site)
	require.EqualError(t, err, "tensor: convert float32[2] to dtype(99): unknown dtype")
}
