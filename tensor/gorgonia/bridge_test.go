package gorgonia_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"
	gt "gorgonia.org/tensor"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/tensor/gorgonia"
)

var site = memory.Site{Op: "test", Scope: "gorgonia"}

// device is a device that must be empty again when the test ends.
func device(t *testing.T, c memory.Config) *memory.Device {
	d, err := memory.NewDevice(c)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

func from[T tensor.Elem](t *testing.T, d *memory.Device, data []T, shape ...int) *tensor.Tensor {
	x, err := tensor.From(d, memory.Other, site, data, shape...)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

// fromDense is gorgonia.FromDense, released when the test ends.
func fromDense(t *testing.T, dev *memory.Device, d *gt.Dense) *tensor.Tensor {
	x, err := gorgonia.FromDense(dev, memory.Input, site, d)
	require.NoError(t, err)
	t.Cleanup(x.Release)
	return x
}

func toDense(t *testing.T, x *tensor.Tensor) *gt.Dense {
	d, _, err := gorgonia.ToDense(x)
	require.NoError(t, err)
	return d
}

func count[T float32 | float64 | int64 | int32 | uint8 | int](n int) []T {
	v := make([]T, n)
	for i := range v {
		v[i] = T(i)
	}
	return v
}

func bools(n int) []bool {
	v := make([]bool, n)
	for i := range v {
		v[i] = i%3 == 0
	}
	return v
}

// counted is a row-major Dense 0, 1, 2...
func counted(shape ...int) *gt.Dense {
	return gt.New(gt.WithShape(shape...), gt.WithBacking(count[float32](gt.Shape(shape).TotalSize())))
}

func must(t *testing.T) func(x tensor.Tensor, err error) *tensor.Tensor {
	return func(x tensor.Tensor, err error) *tensor.Tensor {
		t.Helper()
		require.NoError(t, err)
		return &x
	}
}

func cut(t *testing.T, d *gt.Dense, by ...gt.Slice) *gt.Dense {
	v, err := d.Slice(by...)
	require.NoError(t, err)
	return v.(*gt.Dense)
}

func transpose(t *testing.T, d *gt.Dense, axes ...int) *gt.Dense {
	require.NoError(t, d.T(axes...))
	return d
}

// Out and in again, every dtype and rank, contiguous and not.
func TestRoundTrip(t *testing.T) {
	d := device(t, memory.Config{})
	for _, shape := range [][]int{{}, {1}, {5}, {1, 1}, {1, 4}, {4, 1}, {3, 4}, {2, 3, 4}, {2, 1, 1, 1, 1, 1, 1, 1, 1, 3}} {
		n := tensor.Of(tensor.Bool, shape...).Elems()
		for _, x := range []*tensor.Tensor{
			from(t, d, count[float32](n), shape...), from(t, d, count[float64](n), shape...), from(t, d, count[int64](n), shape...),
			from(t, d, count[int32](n), shape...), from(t, d, count[uint8](n), shape...), from(t, d, bools(n), shape...),
		} {
			dense, shared, err := gorgonia.ToDense(x)
			require.NoError(t, err)
			require.Equal(t, x.DType() == tensor.Float32 || x.DType() == tensor.Float64, shared, "%v", x.Spec())
			require.True(t, slices.Equal(shape, dense.Shape()), "%v: %v", x.Spec(), dense.Shape())
			require.Equal(t, x.DType().String(), dense.Dtype().Name())
			require.False(t, dense.RequiresIterator())
			require.True(t, tensor.Equal(x, fromDense(t, d, dense)), "%v", x.Spec())
			if len(shape) < 2 {
				continue
			}
			v := must(t)(x.Transpose(0, -1))
			dense, shared, err = gorgonia.ToDense(v)
			require.NoError(t, err)
			require.Equal(t, shared, v.IsContiguous() && x.DType().IsFloat())
			require.True(t, tensor.Equal(v, fromDense(t, d, dense)), "%v", x.Spec())
		}
	}
}

func TestSharedMemory(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, count[float32](6), 2, 3)
	rows := must(t)(x.Slice(0, 1, 2)) // contiguous, at an offset
	dense, shared, err := gorgonia.ToDense(rows)
	require.NoError(t, err)
	require.True(t, shared)
	require.Equal(t, 1, x.Buffer().Refs(), "no reference is taken")
	require.Equal(t, int64(24), d.Stats().Live)

	_, err = gt.Mul(dense, float32(10), gt.UseUnsafe())
	require.NoError(t, err)
	require.Equal(t, []float32{0, 1, 2, 30, 40, 50}, tensor.Data[float32](x), "Gorgonia writes, the tensor sees it")
	require.NoError(t, tensor.Fill(x, 7))
	require.Equal(t, []float32{7, 7, 7}, dense.Data(), "and the other way round")

	scalar := from(t, d, []float64{2})
	require.NoError(t, toDense(t, scalar).SetAt(5.0))
	require.Equal(t, 5.0, scalar.At())

	for _, c := range []*tensor.Tensor{must(t)(x.Slice(1, 0, 2)), from(t, d, count[int64](4), 2, 2), must(t)(x.Transpose(0, 1))} {
		before := c.String()
		dense, shared, err := gorgonia.ToDense(c)
		require.NoError(t, err)
		require.False(t, shared)
		dense.Zero()
		require.Equal(t, before, c.String(), "a copy")
	}
}

// Gorgonia's sum of a tensor's views is the views' sum.
func TestGorgoniaComputes(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, count[float64](12), 3, 4)
	xt := must(t)(x.Transpose(0, 1))
	got, err := gt.MatMul(toDense(t, x), toDense(t, xt))
	require.NoError(t, err)
	require.Equal(t, []float64{14, 38, 62, 38, 126, 214, 62, 214, 366}, got.Data())
	require.Equal(t, "float64[3 3]\n[[ 14.  38.  62.]\n [ 38. 126. 214.]\n [ 62. 214. 366.]]", fromDense(t, d, got.(*gt.Dense)).String())
}

func TestFromDenseLayouts(t *testing.T) {
	dev := device(t, memory.Config{})
	for _, c := range []struct {
		name  string
		dense *gt.Dense
		shape []int
		want  []float32
	}{
		{"row-major", counted(2, 3), []int{2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		{"column-major", gt.New(gt.WithShape(2, 3), gt.AsFortran([]float32{0, 1, 2, 3, 4, 5})), []int{2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		{"column-major vector", gt.New(gt.WithShape(3, 1), gt.AsFortran([]float32{0, 1, 2})), []int{3, 1}, []float32{0, 1, 2}},
		{"column-major, one element", gt.New(gt.WithShape(1, 1), gt.AsFortran([]float32{4})), []int{1, 1}, []float32{4}},
		{"rows", cut(t, counted(3, 2), gt.S(1, 3)), []int{2, 2}, []float32{2, 3, 4, 5}},
		{"columns", cut(t, counted(2, 4), nil, gt.S(1, 3)), []int{2, 2}, []float32{1, 2, 5, 6}},
		{"every other column", cut(t, counted(2, 4), nil, gt.S(0, 4, 2)), []int{2, 2}, []float32{0, 2, 4, 6}},
		{"one column", cut(t, counted(2, 3), nil, gt.S(1)), []int{2}, []float32{1, 4}},
		{"one element", cut(t, counted(2, 3), gt.S(1), gt.S(2)), []int{}, []float32{5}},
		{"column of a column-major", cut(t, gt.New(gt.WithShape(2, 3), gt.AsFortran([]float32{0, 1, 2, 3, 4, 5})), nil, gt.S(1)), []int{2}, []float32{1, 4}},
		{"transposed", transpose(t, counted(2, 3)), []int{3, 2}, []float32{0, 3, 1, 4, 2, 5}},
		{"permuted", transpose(t, counted(2, 1, 3), 2, 0, 1), []int{3, 2, 1}, []float32{0, 3, 1, 4, 2, 5}},
		{"transposed vector", transpose(t, counted(1, 3)), []int{3, 1}, []float32{0, 1, 2}},
		{"slice of a materialized transpose", cut(t, transpose(t, counted(2, 3)).Materialize().(*gt.Dense), gt.S(1, 3)), []int{2, 2}, []float32{1, 4, 2, 5}},
		{"column of a transpose, which lies in one run", cut(t, transpose(t, counted(2, 3)), nil, gt.S(1)), []int{3}, []float32{3, 4, 5}},
		{"scalar", gt.New(gt.FromScalar(float32(3))), []int{}, []float32{3}},
	} {
		x := fromDense(t, dev, c.dense)
		require.True(t, slices.Equal(c.shape, x.Shape()), "%s: %v", c.name, x.Spec())
		require.Equal(t, c.want, tensor.Data[float32](x), c.name)
		require.Equal(t, memory.Input, x.Buffer().Kind())
	}
	moved := transpose(t, counted(2, 3))
	require.NoError(t, moved.Transpose())
	require.Equal(t, []float32{1, 4, 2, 5}, tensor.Data[float32](fromDense(t, dev, cut(t, moved, gt.S(1, 3)))), "moved, not only renamed")
}

func TestFromDenseInt(t *testing.T) {
	dev := device(t, memory.Config{})
	x := fromDense(t, dev, cut(t, gt.New(gt.WithShape(2, 3), gt.WithBacking([]int{0, -1, 2, 3, -4, 5})), nil, gt.S(1, 3)))
	require.Equal(t, "int64[2 2]\n[[-1  2]\n [-4  5]]", x.String())
	require.Equal(t, "int64[] -7", fromDense(t, dev, gt.New(gt.FromScalar(-7))).String())
}

// A copy into the arena: counted, and apart from what the Dense does later.
func TestFromDenseCopies(t *testing.T) {
	dev := device(t, memory.Config{Limit: 1 << 16})
	dense := counted(2, 3)
	x, err := gorgonia.FromDense(dev, memory.Param, site, dense)
	require.NoError(t, err)
	require.Equal(t, int64(24), dev.Stats().Live)
	dense.Zero()
	require.Equal(t, []float32{0, 1, 2, 3, 4, 5}, tensor.Data[float32](x))
	x.Release()
	require.Zero(t, dev.Stats().Live)

	var oom *memory.OOMError
	_, err = gorgonia.FromDense(dev, memory.Input, site, counted(1<<10, 1<<10))
	require.ErrorAs(t, err, &oom)
	require.Zero(t, dev.Stats().Live)
}

func TestWithoutBytes(t *testing.T) {
	dev := device(t, memory.Config{Virtual: true})
	x := fromDense(t, dev, counted(2, 3))
	require.Equal(t, "float32[2 3] (no data)", x.String())
	_, _, err := gorgonia.ToDense(x)
	require.EqualError(t, err, "gorgonia: to dense of float32[2 3]: it has no bytes")
	_, _, err = gorgonia.ToDense(&tensor.Tensor{})
	require.EqualError(t, err, "gorgonia: to dense of float32[]: it has no bytes")
}

func TestRefusals(t *testing.T) {
	dev := device(t, memory.Config{})
	for _, x := range []*tensor.Tensor{from(t, dev, []tensor.BF16{1, 2}, 2), from(t, dev, []float16.Float16{1, 2}, 2)} {
		_, _, err := gorgonia.ToDense(x)
		require.EqualError(t, err, fmt.Sprintf("gorgonia: to dense of %v: Gorgonia has no half types: convert it (To) to float32 first", x.Spec()))
	}
	_, _, err := gorgonia.ToDense(from(t, dev, []float32{}, 0, 3))
	require.EqualError(t, err, "gorgonia: to dense of float32[0 3]: a Dense has at least one element")
	require.Equal(t, "float32[0 3]", fromDense(t, dev, gt.New(gt.WithShape(0, 3), gt.Of(gt.Float32))).Spec().String())

	const transposed = "it was sliced and transposed, which Gorgonia reads in two ways: Materialize after the first of the two"
	for _, c := range []struct {
		dense *gt.Dense
		want  string
	}{
		{nil, "gorgonia: from dense: it is nil or has no dtype"},
		{new(gt.Dense), "gorgonia: from dense: it is nil or has no dtype"},
		{cut(t, transpose(t, counted(2, 3)), gt.S(0, 2)), "gorgonia: from dense float32(2, 2): " + transposed},
		{cut(t, transpose(t, counted(2, 3)), gt.S(1)), "gorgonia: from dense float32(2): " + transposed},
		{transpose(t, cut(t, counted(3, 4), nil, gt.S(1, 3))), "gorgonia: from dense float32(2, 3): " + transposed},
		{transpose(t, cut(t, counted(1, 2, 3), nil, nil, gt.S(2))), "gorgonia: from dense float32(2, 1): " + transposed},
		{
			gt.New(gt.WithShape(2), gt.WithBacking([]float32{1, 2}, []bool{true, false})),
			"gorgonia: from dense float32(2): it is masked, and a tensor has no mask: take SetMask(nil), after Filled perhaps",
		},
		{
			gt.New(gt.WithShape(2), gt.WithBacking([]uint16{1, 2})),
			"gorgonia: from dense uint16(2): a tensor has no such dtype: want float32, float64, int, int64, int32, uint8 or bool",
		},
		{
			gt.New(gt.WithBacking([]float16.Float16{1, 2})),
			"gorgonia: from dense Float16(2): a tensor has no such dtype: want float32, float64, int, int64, int32, uint8 or bool",
		},
	} {
		_, err := gorgonia.FromDense(dev, memory.Input, site, c.dense)
		require.EqualError(t, err, c.want)
	}
}

// Random slices and a transpose at a random place: what is accepted has the elements that were asked for, and what is
// refused was sliced and transposed.
func TestRandomDenseViews(t *testing.T) {
	dev := device(t, memory.Config{})
	r := rand.New(rand.NewPCG(1, 2))
	accepted, refused := 0, 0
	for range 5000 {
		shape := make([]int, 1+r.IntN(3))
		for i := range shape {
			shape[i] = 2 + r.IntN(3)
		}
		dense, x := counted(shape...), fromDense(t, dev, counted(shape...))
		view := *x // the same operations on the tensor, which are tested elsewhere
		slicedBy, transposed := 0, false
		for k, at := 0, r.IntN(4); k < 3 && view.Rank() > 0; k++ {
			if k == at && view.Rank() > 1 {
				axes := r.Perm(view.Rank())
				transpose(t, dense, axes...)
				view, transposed = *must(t)(view.Permute(axes...)), true
				continue
			}
			dim := r.IntN(view.Rank())
			if view.Dim(dim) < 2 {
				continue // Gorgonia drops such a dimension where one does not expect it
			}
			lo := r.IntN(view.Dim(dim) - 1)
			hi := lo + 2 + r.IntN(view.Dim(dim)-lo-1)
			by := make([]gt.Slice, dim+1)
			if by[dim] = gt.S(lo, hi); r.IntN(2) == 0 {
				by[dim], view = gt.S(lo), *must(t)(view.Select(dim, lo))
			} else {
				view = *must(t)(view.Slice(dim, lo, hi))
			}
			dense, slicedBy = cut(t, dense, by...), slicedBy+1
		}
		if !slices.Equal(dense.Shape(), view.Shape()) {
			continue // dims of size 1 went away
		}
		got, err := gorgonia.FromDense(dev, memory.Input, site, dense)
		if err != nil {
			require.True(t, transposed && slicedBy > 0, "%v", err)
			refused++
			continue
		}
		require.True(t, tensor.Equal(&view, got), "%v\nwant %v\ngot %v", dense.Info(), &view, got)
		got.Release()
		accepted++
	}
	require.Greater(t, accepted, 2000)
	require.Greater(t, refused, 300)
}
