package tensor_test

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func lines(s ...string) string { return strings.Join(s, "\n") }

// What NumPy prints after set_printoptions(precision=4), but for the first line and the spelling of NaN, Inf and bools.
func TestString(t *testing.T) {
	d := device(t, memory.Config{})
	rng := func(shape ...int) *tensor.Tensor {
		x := zeros(t, d, tensor.Int32, shape...)
		require.NoError(t, tensor.FillRange(x, 0, 1))
		return x
	}
	eps := 0x1p-52
	for _, c := range []struct {
		x    *tensor.Tensor
		want string
	}{
		// The point is where the columns meet; the most digits that one needs, at most 4.
		{from(t, d, []float32{1, 0.5, -12.25, 0.1}, 2, 2), "float32[2 2]\n[[  1.     0.5 ]\n [-12.25   0.1 ]]"},
		{from(t, d, []float64{1.123456789}, 1), "float64[1]\n[1.1235]"},
		{from(t, d, []float64{0, 1, 2}, 3), "float64[3]\n[0. 1. 2.]"},
		{from(t, d, []float64{0.99999, 0.00012345}, 2), "float64[2]\n[9.9999e-01 1.2345e-04]"},
		{from(t, d, []float64{0.99999, 0.5}, 2), "float64[2]\n[1.  0.5]"},
		{from(t, d, []float64{negate, 0}, 2), "float64[2]\n[-0.  0.]"},
		{from(t, d, []float32{0.1, 0.2, 0.7}, 3), "float32[3]\n[0.1 0.2 0.7]"},

		// Exponents for all if the range asks for them: from 1e8, below 1e-4, beyond 1 to 1000.
		{from(t, d, []float64{-(eps * eps), -2 * eps, 0, 0}, 4), "float64[4]\n[-4.9304e-32 -4.4409e-16  0.0000e+00  0.0000e+00]"},
		{from(t, d, []float64{1e8}, 1), "float64[1]\n[1.e+08]"},
		{from(t, d, []float64{99999999}, 1), "float64[1]\n[99999999.]"},
		{from(t, d, []float64{1e-4, 1e-1}, 2), "float64[2]\n[0.0001 0.1   ]"},
		{from(t, d, []float64{9e-5, 1e-2}, 2), "float64[2]\n[9.e-05 1.e-02]"},
		{from(t, d, []float64{1, 1000}, 2), "float64[2]\n[   1. 1000.]"},
		{from(t, d, []float64{1, 1001}, 2), "float64[2]\n[1.000e+00 1.001e+03]"},
		{from(t, d, []float64{1e300, -2.5e-7}, 2), "float64[2]\n[ 1.0e+300 -2.5e-007]"},
		{
			from(t, d, []float32{0.1, -2, 1e-9, 123456, float32(nan), float32(-inf)}, 2, 3),
			"float32[2 3]\n[[ 1.0000e-01 -2.0000e+00  1.0000e-09]\n [ 1.2346e+05         NaN        -Inf]]",
		},

		// NaN and Inf end where the others do, or make room.
		{from(t, d, []float64{nan, 1, inf, 2}, 2, 2), "float64[2 2]\n[[NaN  1.]\n [Inf  2.]]"},
		{from(t, d, []float64{1, -inf}, 2), "float64[2]\n[  1. -Inf]"},
		{from(t, d, []float64{nan, nan}, 2), "float64[2]\n[NaN NaN]"},
		{from(t, d, []float64{inf, 0.1234}, 2), "float64[2]\n[   Inf 0.1234]"},

		// Scalars, other types.
		{from(t, d, []float64{math.Pi}), "float64[] 3.1416"},
		{from(t, d, []float64{nan}), "float64[] NaN"},
		{from(t, d, []float32{1e-9}), "float32[] 1.e-09"},
		{from(t, d, []int64{-3}), "int64[] -3"},
		{from(t, d, []bool{true}), "bool[] true"},
		{from(t, d, []bool{true, false}, 2), "bool[2]\n[ true false]"},
		{from(t, d, []int64{math.MaxInt64, math.MinInt64}, 2), "int64[2]\n[ 9223372036854775807 -9223372036854775808]"},
		{from(t, d, []uint8{255, 0}, 2), "uint8[2]\n[255   0]"},
		{from(t, d, []float16.Float16{0x3c00, 0xc000, 1}, 3), "float16[3]\n[ 1.e+00 -2.e+00  6.e-08]"},
		{from(t, d, []float16.Float16{0x2e66, 0x7bff}, 2), "float16[2]\n[1.00e-01 6.55e+04]"},
		{from(t, d, []float16.Float16{0x7bff, 0x5803}, 2), "float16[2]\n[65504.    128.4]"}, // NumPy has 65500.
		{from(t, d, []float16.Float16{0x2e66, 0xfc00}, 2), "float16[2]\n[ 0.1 -Inf]"},
		{from(t, d, []tensor.BF16{0x3dcd, 0xbe80}, 2), "bfloat16[2]\n[ 0.1  -0.25]"},

		// Rows, matrices, views, nothing.
		{rng(6), "int32[6]\n[0 1 2 3 4 5]"},
		{
			rng(2, 3, 4),
			lines("int32[2 3 4]", "[[[ 0  1  2  3]", "  [ 4  5  6  7]", "  [ 8  9 10 11]]", "",
				" [[12 13 14 15]", "  [16 17 18 19]", "  [20 21 22 23]]]"),
		},
		{rng(2, 1, 2, 1), lines("int32[2 1 2 1]", "[[[[0]", "   [1]]]", "", "", " [[[2]", "   [3]]]]")},
		{must(t)(rng(2, 2).Transpose(0, 1)), "int32[2 2]\n[[0 2]\n [1 3]]"},
		{must(t)(rng(2, 1).Expand(2, 3)), "int32[2 3]\n[[0 0 0]\n [1 1 1]]"},
		{rng(0, 3), "int32[0 3]\n[]"},
		{rng(2, 0), "int32[2 0]\n[]"},

		// More than 75 characters go on in the next line.
		{
			rng(30), lines("int32[30]", "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
				" 24 25 26 27 28 29]"),
		},
		{
			rng(1, 25), lines("int32[1 25]", "[[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23",
				"  24]]"),
		},

		// More than 1000 elements are cut down to 3 at both ends.
		{rng(10000), "int32[10000]\n[   0    1    2 ... 9997 9998 9999]"},
		{
			rng(100, 100),
			lines("int32[100 100]", "[[   0    1    2 ...   97   98   99]", " [ 100  101  102 ...  197  198  199]",
				" [ 200  201  202 ...  297  298  299]", " ...", " [9700 9701 9702 ... 9797 9798 9799]",
				" [9800 9801 9802 ... 9897 9898 9899]", " [9900 9901 9902 ... 9997 9998 9999]]"),
		},
		{rng(2, 1001), "int32[2 1001]\n[[   0    1    2 ...  998  999 1000]\n [1001 1002 1003 ... 1999 2000 2001]]"},
		{rng(8, 8, 8, 8, 8, 8), "int32[8 8 8 8 8 8] (262144 elements)"},
	} {
		require.Equal(t, c.want, c.x.String())
	}
}

// The middle of a large tensor does not decide how its edges are written, and three dimensions have empty lines around
// what is left out.
func TestStringLeavesOut(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 7, 1, 200)
	require.NoError(t, tensor.Fill(must(t)(x.Slice(2, 3, 100)), 1e30))
	const rows = "[[0. 0. 0. ... 0. 0. 0.]]"
	require.Equal(t, lines("float32[7 1 200]", "["+rows, "", " "+rows, "", " "+rows, "", " ...", "", " "+rows, "", " "+rows,
		"", " "+rows+"]"), x.String())
}

// The digits of a half are enough to find it again.
func TestShortestHalf(t *testing.T) {
	h := halves()[1]
	longest := 0
	for i := range h.inf {
		text := tensor.BF16(i).String()
		back, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		require.Equal(t, i, h.nearest(big.NewFloat(back)), text)
		digits, _, _ := strings.Cut(text, "e")
		longest = max(longest, len(strings.Trim(strings.Replace(digits, ".", "", 1), "0")))
	}
	require.Equal(t, 4, longest)
}
