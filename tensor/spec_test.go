package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/tensor"
)

func TestDTypes(t *testing.T) {
	require.Equal(t, tensor.Float32, tensor.DType(0))
	var names []string
	for _, dt := range tensor.DTypes() {
		names = append(names, dt.String())
		back, err := tensor.ParseDType(dt.String())
		require.NoError(t, err)
		require.Equal(t, dt, back)
		require.True(t, dt.Valid())
		require.False(t, dt.IsFloat() && dt.IsInteger())
	}
	require.Equal(t, []string{"float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"}, names)
	require.False(t, tensor.Bool.IsInteger())
	require.True(t, tensor.Uint8.IsInteger())
	require.True(t, tensor.BFloat16.IsFloat())

	bad := tensor.DType(len(names))
	require.False(t, bad.Valid())
	require.Equal(t, "dtype(8)", bad.String())
	_, err := tensor.ParseDType("half")
	require.EqualError(t, err,
		`tensor: dtype "half": want one of [float32 float64 float16 bfloat16 int64 int32 uint8 bool]`)
}

func TestElemTypes(t *testing.T) {
	require.Equal(t, tensor.DTypes(), []tensor.DType{
		tensor.DTypeOf[float32](), tensor.DTypeOf[float64](), tensor.DTypeOf[float16.Float16](),
		tensor.DTypeOf[tensor.BF16](), tensor.DTypeOf[int64](), tensor.DTypeOf[int32](), tensor.DTypeOf[uint8](),
		tensor.DTypeOf[bool](),
	})
	require.Equal(t, []int{4, 8, 2, 2, 8, 4, 1, 1}, sizes())
	var dt tensor.DType
	require.Zero(t, testing.AllocsPerRun(10, func() { dt = tensor.DTypeOf[float16.Float16]() }))
	require.Equal(t, tensor.Float16, dt)
}

func sizes() (out []int) {
	for _, dt := range tensor.DTypes() {
		out = append(out, dt.Size())
	}
	return out
}

func TestSpec(t *testing.T) {
	s := tensor.Of(tensor.Float32, 8, 256, 384)
	require.Equal(t, "float32[8 256 384]", s.String())
	require.Equal(t, 3, s.Rank())
	require.Equal(t, []int{8, 256, 384, 384, 8}, []int{s.Dim(0), s.Dim(1), s.Dim(2), s.Dim(-1), s.Dim(-3)})
	require.Equal(t, 8*256*384, s.Elems())
	require.Equal(t, int64(4*8*256*384), s.Bytes())
	require.PanicsWithValue(t, "tensor: float32[8 256 384]: dim 3 of rank 3: want -3 to 2", func() { s.Dim(3) })

	require.True(t, s.Equal(tensor.Of(tensor.Float32, 8, 256, 384)))
	require.False(t, s.Equal(tensor.Of(tensor.Int32, 8, 256, 384)))
	require.True(t, s.SameShape(tensor.Of(tensor.Int32, 8, 256, 384)))
	require.False(t, s.SameShape(tensor.Of(tensor.Float32, 8, 256)))

	scalar := tensor.Spec{}
	require.Equal(t, "float32[]", scalar.String())
	require.Equal(t, 1, scalar.Elems())
	require.True(t, scalar.Equal(tensor.Of(tensor.Float32)), "nil and empty shapes are one")
	require.PanicsWithValue(t, "tensor: float32[]: dim 0 of rank 0: there is no dim", func() { scalar.Dim(0) })
	require.Zero(t, tensor.Of(tensor.Bool, 3, 0, 2).Elems())

	shape := []int{2, 3}
	kept := tensor.Of(tensor.Bool, shape...)
	shape[0] = 9
	require.Equal(t, []int{2, 3}, kept.Shape, "Of copies")
}

func TestSpecValidate(t *testing.T) {
	const half = math.MaxInt/2 + 1
	for _, c := range []struct {
		spec tensor.Spec
		want string
	}{
		{tensor.Of(tensor.Float32), ""},
		{tensor.Of(tensor.Float32, 0, 5), ""},
		{tensor.Of(tensor.Uint8, math.MaxInt), ""},
		{tensor.Of(tensor.Float32, 2, -1), "tensor: spec float32[2 -1]: dim 1 is negative"},
		{tensor.Of(tensor.DType(77), 2), "tensor: spec dtype(77)[2]: unknown dtype"},
		{tensor.Of(tensor.Float64, half, 2), fmt.Sprintf("tensor: spec float64[%d 2]: too many elements", half)},
		{tensor.Of(tensor.Uint8, half, 3, 0), fmt.Sprintf("tensor: spec uint8[%d 3 0]: too many elements", half)},
	} {
		err := c.spec.Validate()
		if c.want == "" {
			require.NoError(t, err)
			continue
		}
		require.EqualError(t, err, c.want)
	}
}

func TestBroadcastShapes(t *testing.T) {
	for _, c := range []struct {
		a, b, want []int
		err        string
	}{
		{a: nil, b: nil, want: []int{}},
		{a: nil, b: []int{3}, want: []int{3}},
		{a: []int{2, 3}, b: []int{3}, want: []int{2, 3}},
		{a: []int{2, 1}, b: []int{1, 3}, want: []int{2, 3}},
		{a: []int{5, 1, 4}, b: []int{3, 1}, want: []int{5, 3, 4}},
		{a: []int{1}, b: []int{0}, want: []int{0}},
		{a: []int{2, 0}, b: []int{1, 1}, want: []int{2, 0}},
		{a: []int{1, 1}, b: []int{1}, want: []int{1, 1}},
		{a: []int{2, 3}, b: []int{4}, err: "tensor: broadcast [2 3] with [4]: dim -1 is 3 and 4"},
		{a: []int{2, 3}, b: []int{3, 3}, err: "tensor: broadcast [2 3] with [3 3]: dim -2 is 2 and 3"},
		{a: []int{0}, b: []int{3}, err: "tensor: broadcast [0] with [3]: dim -1 is 0 and 3"},
	} {
		got, err := tensor.BroadcastShapes(c.a, c.b)
		if c.err != "" {
			require.EqualError(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.True(t, slices.Equal(c.want, got), "%v with %v: %v", c.a, c.b, got)
		back, err := tensor.BroadcastShapes(c.b, c.a)
		require.NoError(t, err)
		require.True(t, slices.Equal(got, back), "commutes")
	}
	a, b := []int{2, 3}, []int{3}
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.BroadcastShapes(a, b) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.BroadcastShapes(b, a) }))
}

func TestBroadcastTo(t *testing.T) {
	for _, c := range []struct {
		from, to []int
		want     bool
	}{
		{nil, nil, true},
		{nil, []int{2, 3}, true},
		{[]int{1, 3}, []int{2, 3}, true},
		{[]int{3}, []int{2, 3}, true},
		{[]int{1}, []int{0}, true},
		{[]int{2, 3}, []int{3}, false},
		{[]int{1, 3}, []int{3}, false},
		{[]int{2}, []int{1}, false},
		{[]int{0}, []int{3}, false},
	} {
		require.Equal(t, c.want, tensor.BroadcastTo(c.from, c.to), "%v to %v", c.from, c.to)
	}
}

// shapeOf reads a shape off fuzzed bytes: at most 5 dimensions of 0 to 3.
func shapeOf(b []byte) []int {
	shape := []int{}
	for _, x := range b[:min(len(b), 5)] {
		shape = append(shape, int(x%4))
	}
	return shape
}

// The result is the smallest shape to which both broadcast, or an error where there is none.
func FuzzBroadcast(f *testing.F) {
	f.Add([]byte{2, 1}, []byte{3})
	f.Add([]byte{0, 1}, []byte{3, 1})
	f.Fuzz(func(t *testing.T, x, y []byte) {
		a, b := shapeOf(x), shapeOf(y)
		out, err := tensor.BroadcastShapes(a, b)
		want := slices.Clone(a)
		if len(b) > len(a) {
			want = slices.Clone(b)
		}
		fits := true
		for i := range want {
			x, y := 1, 1
			if k := i - len(want) + len(a); k >= 0 {
				x = a[k]
			}
			if k := i - len(want) + len(b); k >= 0 {
				y = b[k]
			}
			fits = fits && (x == y || x == 1 || y == 1)
			if want[i] = x; x == 1 {
				want[i] = y
			}
		}
		require.Equal(t, fits, err == nil)
		if fits {
			require.Equal(t, want, out)
			require.True(t, tensor.BroadcastTo(a, out))
			require.True(t, tensor.BroadcastTo(b, out))
		}
	})
}
