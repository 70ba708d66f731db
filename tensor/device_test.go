package tensor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// writers are all functions that write a tensor, applied to a Float32[2 3].
func writers(src *tensor.Tensor, s *tensor.Stream) map[string]func(x *tensor.Tensor) error {
	return map[string]func(x *tensor.Tensor) error{
		"copy":    func(x *tensor.Tensor) error { return tensor.Copy(x, src) },
		"convert": func(x *tensor.Tensor) error { return tensor.Convert(x, src) },
		"fill":    func(x *tensor.Tensor) error { return tensor.Fill(x, 5) },
		"range":   func(x *tensor.Tensor) error { return tensor.FillRange(x, 7, 1) },
		"uniform": func(x *tensor.Tensor) error { return tensor.FillUniform(x, s, 8, 9) },
		"normal":  func(x *tensor.Tensor) error { return tensor.FillNormal(x, s, 9, 1) },
	}
}

func TestWritersBumpOnce(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		d := device(t, memory.Config{Virtual: virtual})
		src, x := zeros(t, d, tensor.Float32, 2, 3), zeros(t, d, tensor.Float32, 2, 3)
		var s tensor.Stream
		want := uint32(0)
		for name, write := range writers(src, &s) {
			require.NoError(t, write(x), name)
			want++
			require.Equal(t, want, x.Version(), name)
		}
		require.Zero(t, src.Version(), "reading is not a write")
		require.Equal(t, uint64(16), s.Offset, "8 for each random fill, virtual or not")
	}
}

func TestVirtual(t *testing.T) {
	d := device(t, memory.Config{Virtual: true})
	x := zeros(t, d, tensor.Float32, 2, 3)
	require.Nil(t, tensor.Data[float32](x))
	require.Nil(t, tensor.Raw[float32](must(t)(x.Transpose(0, 1))))
	require.Zero(t, x.At(1, 2))
	v, err := must(t)(x.Slice(0, 0, 1)).To(tensor.Int32, memory.Temporary, site)
	require.NoError(t, err)
	defer v.Release()
	require.Equal(t, "int32[1 3]", v.Spec().String())
	require.Equal(t, int64(24+12), d.Stats().Live)
	item, err := zeros(t, d, tensor.Float64, 1, 1).Item()
	require.NoError(t, err)
	require.Zero(t, item)
	require.Equal(t, "float32[2 3] (no data)", x.String())
	require.True(t, tensor.Equal(x, zeros(t, d, tensor.Float32, 2, 3)))
	require.False(t, tensor.Equal(x, zeros(t, device(t, memory.Config{}), tensor.Float32, 2, 3)))
	from(t, d, []float32{1, 2}, 2)

	real := from(t, device(t, memory.Config{}), []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	require.NoError(t, tensor.Copy(real, x))
	require.NoError(t, tensor.Copy(x, real))
	require.Equal(t, 6.0, real.At(1, 2), "there was nothing to copy")
	require.Error(t, tensor.Copy(x, v), "arguments are checked all the same")
}

// In a dry run what exists keeps its bytes, whatever is written; versions move, and Join sets them back.
func TestForked(t *testing.T) {
	d := device(t, memory.Config{})
	old := []float64{1, 2, 3, 4, 5, 6}
	x := from(t, d, []float32{1, 2, 3, 4, 5, 6}, 2, 3)
	src := zeros(t, d, tensor.Float32, 2, 3)
	var s tensor.Stream
	d.Fork()
	for name, write := range writers(src, &s) {
		require.NoError(t, write(x), name)
		require.NoError(t, write(must(t)(x.Slice(0, 0, 2))), name)
		require.Equal(t, old, values(x), name)
	}
	require.Equal(t, uint32(12), x.Version())
	y, err := x.Contiguous(memory.Temporary, site)
	require.NoError(t, err)
	require.Nil(t, tensor.Data[float32](y))
	require.NotNil(t, tensor.Data[float32](x), "what is real may be read")
	z, err := tensor.Zeros(d, memory.Temporary, site, x.Spec())
	require.NoError(t, err)
	d.Join()

	require.NoError(t, tensor.Fill(y, 1), "outlived its dry run: still without bytes")
	y.Release()
	z.Release()
	require.Zero(t, x.Version())
	require.NoError(t, tensor.Fill(x, 5))
	require.Equal(t, 5.0, x.At(1, 2))
}

func TestTracing(t *testing.T) {
	var specs []string
	d := device(t, memory.Config{Trace: func(e memory.Event) {
		if e.Act == memory.Describe {
			specs = append(specs, e.Spec)
		}
	}})
	x := zeros(t, d, tensor.Float32, 2, 3)
	c, err := x.Contiguous(memory.Temporary, site)
	require.NoError(t, err)
	c.Release()
	require.Equal(t, []string{"float32[2 3]", "float32[2 3]"}, specs)
}

func TestReferences(t *testing.T) {
	d := device(t, memory.Config{})
	x, err := tensor.New(d, memory.Param, memory.Site{Op: "linear", Scope: "gpt"}, tensor.Of(tensor.Float32, 4))
	require.NoError(t, err)
	require.Equal(t, 1, x.Buffer().Refs())
	require.Equal(t, memory.Param, x.Buffer().Kind())
	require.Same(t, x, x.Retain())
	v := must(t)(x.Slice(0, 1, 2))
	require.Same(t, x.Buffer(), v.Buffer())
	require.Equal(t, 1, v.Offset())
	v.Release()
	require.Equal(t, 1, x.Buffer().Refs())
	x.Release()
	require.Zero(t, d.Stats().Live)
	require.Panics(t, func() { tensor.Data[float32](x) })

	var none tensor.Tensor
	require.True(t, none.Empty())
	none.Retain()
	none.Bump()
	none.Release()
	require.Zero(t, none.Version())
	require.Nil(t, tensor.Data[float32](&none))
	require.Equal(t, "float32[] (no data)", none.String())
}

func TestOn(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, count[float32](6), 2, 3)
	v := must(t)(must(t)(x.Slice(1, 1, 3)).Transpose(0, 1))
	copied, err := x.Contiguous(memory.Other, site)
	require.NoError(t, err)
	defer copied.Release()
	w := v.On(copied.Buffer())
	require.Equal(t, values(v), values(&w))
	require.Equal(t, 1, copied.Buffer().Refs())
	small := zeros(t, d, tensor.Float32, 5)
	require.PanicsWithValue(t, "tensor: a view float32[2 2] reaches to byte 24: the buffer has 20",
		func() { v.On(small.Buffer()) })
}

func TestOutOfMemory(t *testing.T) {
	d := device(t, memory.Config{Limit: 1 << 16})
	x := zeros(t, d, tensor.Float32, 1<<13)
	var oom *memory.OOMError
	for _, f := range []func() (*tensor.Tensor, error){
		func() (*tensor.Tensor, error) {
			return tensor.New(d, memory.Other, site, tensor.Of(tensor.Float64, 1<<13))
		},
		func() (*tensor.Tensor, error) { return x.To(tensor.Float64, memory.Other, site) },
		func() (*tensor.Tensor, error) { return tensor.From(d, memory.Other, site, make([]int64, 1<<13), 1<<13) },
	} {
		got, err := f()
		require.Nil(t, got)
		require.ErrorAs(t, err, &oom)
	}
	require.Equal(t, x.Bytes(), d.Stats().Live)
}

func TestMakeAllocatesTheBufferOnly(t *testing.T) {
	d := device(t, memory.Config{})
	s := tensor.Of(tensor.Float32, 2, 3)
	alloc := testing.AllocsPerRun(100, func() {
		b, _ := d.Alloc(24, memory.Other, site)
		b.Release()
	})
	require.Equal(t, alloc, testing.AllocsPerRun(100, func() {
		x, _ := tensor.Make(d, memory.Other, site, s)
		x.Release()
	}))
}

func TestMakeErrors(t *testing.T) {
	d := device(t, memory.Config{})
	_, err := tensor.New(d, memory.Other, site, tensor.Of(tensor.Float32, -1))
	require.EqualError(t, err, "tensor: spec float32[-1]: dim 0 is negative")
	_, err = tensor.From(d, memory.Other, site, []float32{1, 2, 3}, 2, 2)
	require.EqualError(t, err, "tensor: from 3 elements to float32[2 2]: want 4")
	x := zeros(t, d, tensor.Float32, 2, 3)
	require.PanicsWithValue(t, "tensor: int32[7] takes 28 bytes: the buffer has 24",
		func() { tensor.Over(x.Buffer(), tensor.Of(tensor.Int32, 7)) })
	require.PanicsWithValue(t, "tensor: spec int32[-7]: dim 0 is negative",
		func() { tensor.Over(x.Buffer(), tensor.Of(tensor.Int32, -7)) })
	require.PanicsWithValue(t, "tensor: data of float32[2 3] asked as int32", func() { tensor.Data[int32](x) })
	tr := must(t)(x.Transpose(0, 1))
	require.PanicsWithValue(t, "tensor: data of a view float32[3 2] with strides [1 3] is not contiguous: "+
		"use Contiguous, or Raw with strides", func() { tensor.Data[float32](tr) })
	require.PanicsWithValue(t, "tensor: at [1] of float32[2 3]: want 2 indices", func() { x.At(1) })
	require.PanicsWithValue(t, "tensor: at [1 3] of float32[2 3]: dim 1 is out of range", func() { x.At(1, 3) })
	_, err = x.Item()
	require.EqualError(t, err, "tensor: item of float32[2 3]: want 1 element, got 6")
	for _, i := range []int{-3, 2} {
		require.Panics(t, func() { x.Stride(i) })
		require.Panics(t, func() { tr.Stride(i) })
	}
	require.Equal(t, []int{3, 1, 1, 3}, []int{x.Stride(0), x.Stride(-1), tr.Stride(-2), tr.Stride(1)})
}

// Zero elements and rank 0 go through everything.
func TestSmallest(t *testing.T) {
	d := device(t, memory.Config{})
	for _, dt := range tensor.DTypes() {
		none, one := zeros(t, d, dt, 2, 0, 3), zeros(t, d, dt)
		for _, x := range []*tensor.Tensor{none, one} {
			c, err := x.Contiguous(memory.Temporary, site)
			require.NoError(t, err)
			require.NoError(t, tensor.Copy(c, x))
			require.NoError(t, tensor.Fill(c, 0))
			require.True(t, tensor.Equal(c, x))
			require.NotEmpty(t, x.String())
			c.Release()
		}
		v := must(t)(none.Transpose(0, 2))
		require.True(t, v.IsContiguous())
		require.Equal(t, []int{0, 6}, must(t)(v.Reshape(0, 6)).Shape())
	}
	var s tensor.Stream
	f := zeros(t, d, tensor.Float32, 0, 4)
	require.NoError(t, tensor.FillUniform(f, &s, 0, 1))
	require.NoError(t, tensor.FillNormal(f, &s, 0, 1))
	require.NoError(t, tensor.FillRange(f, 0, 1))
	require.Zero(t, s.Offset)
	one := from(t, d, []float64{2.5})
	item, err := one.Item()
	require.NoError(t, err)
	require.Equal(t, 2.5, item)
	require.NoError(t, tensor.FillNormal(one, &s, 0, 1))
	require.Equal(t, uint64(4), s.Offset)
}
