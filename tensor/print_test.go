package tensor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestString(t *testing.T) {
	d := device(t, memory.Config{})
	rng := func(shape ...int) *tensor.Tensor {
		x := zeros(t, d, tensor.Int32, shape...)
		require.NoError(t, tensor.FillRange(x, 0, 1))
		return x
	}
	for _, c := range []struct {
		x    *tensor.Tensor
		want string
	}{
		{from(t, d, []float32{0.1, -2, 1e-9, 123456, float32(nan), float32(-inf)}, 2, 3),
			"float32[2 3]\n[[      0.1        -2     1e-09]\n [1.235e+05       NaN      -Inf]]"},
		{from(t, d, []float64{math.Pi}), "float64[] 3.142"},
		{from(t, d, []bool{true, false}, 2), "bool[2]\n[ true false]"},
		{from(t, d, []int64{math.MaxInt64, math.MinInt64}, 2), "int64[2]\n[ 9223372036854775807 -9223372036854775808]"},
		{from(t, d, []uint8{255, 0}, 2), "uint8[2]\n[255   0]"},
		{from(t, d, []float16.Float16{0x3c00, 0xc000, 1}, 3), "float16[3]\n[       1       -2 5.96e-08]"},
		{from(t, d, []tensor.BF16{0x3f80, 0xbe80}, 2), "bfloat16[2]\n[    1 -0.25]"},
		{rng(6), "int32[6]\n[0 1 2 3 4 5]"},
		{rng(7), "int32[7]\n[0 1 2 ... 4 5 6]"},
		{rng(7, 7), "int32[7 7]\n[[ 0  1  2 ...  4  5  6]\n [ 7  8  9 ... 11 12 13]\n [14 15 16 ... 18 19 20]\n ...\n" +
			" [28 29 30 ... 32 33 34]\n [35 36 37 ... 39 40 41]\n [42 43 44 ... 46 47 48]]"},
		{rng(2, 2, 2), "int32[2 2 2]\n[[[0 1]\n  [2 3]]\n [[4 5]\n  [6 7]]]"},
		{must(t)(rng(2, 2).Transpose(0, 1)), "int32[2 2]\n[[0 2]\n [1 3]]"},
		{rng(0, 3), "int32[0 3]\n[]"},
		{rng(2, 0), "int32[2 0]\n[[]\n []]"},
		{rng(8, 8, 8, 8), "int32[8 8 8 8] (4096 elements)"},
	} {
		require.Equal(t, c.want, c.x.String())
	}
}
