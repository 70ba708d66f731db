package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

func TestCopyStrided(t *testing.T) {
	d := device(t, memory.Config{})
	src := from(t, d, count[int64](24), 2, 3, 4)
	dst := zeros(t, d, tensor.Int64, 4, 3, 2)
	view := must(t)(src.Transpose(0, 2))
	require.NoError(t, tensor.Copy(dst, view))
	require.Equal(t, values(view), values(dst))

	back := zeros(t, d, tensor.Int64, 2, 3, 4)
	require.NoError(t, tensor.Copy(must(t)(back.Transpose(0, 2)), dst))
	require.True(t, tensor.Equal(back, src))

	row := from(t, d, []int64{7, 8, 9}, 3, 1)
	require.NoError(t, tensor.Copy(back, must(t)(row.Expand(2, 3, 4))))
	require.Equal(t, 9.0, back.At(1, 2, 3))
}

func TestCopyKeepsBits(t *testing.T) {
	d := device(t, memory.Config{})
	bits := []uint32{0x80000000, 0x7fc00001, 0xffc12345, 0x7f800001, 0x00000001, 0x7f800000} // -0, NaNs, one signalling
	x := make([]float32, len(bits))
	for i, b := range bits {
		x[i] = math.Float32frombits(b)
	}
	src, dst := from(t, d, x, 2, 3), zeros(t, d, tensor.Float32, 2, 3)
	for _, swap := range []bool{false, true} {
		a, b := src, dst
		if swap {
			a, b = must(t)(src.Transpose(0, 1)), must(t)(dst.Transpose(0, 1))
		}
		require.NoError(t, tensor.Copy(b, a))
		for i, v := range tensor.Data[float32](dst) {
			require.Equal(t, bits[i], math.Float32bits(v))
		}
	}
	require.True(t, tensor.Equal(src, dst), "a NaN is equal to itself by bits")
	require.False(t, tensor.Equal(from(t, d, []float32{0}, 1), from(t, d, []float32{float32(math.Copysign(0, -1))}, 1)))
}

func TestCopyEveryDType(t *testing.T) {
	d := device(t, memory.Config{})
	for _, c := range []*tensor.Tensor{
		from(t, d, []float32{1, 2, 3, 4}, 2, 2), from(t, d, []float64{1, 2, 3, 4}, 2, 2),
		from(t, d, []float16.Float16{0x3c00, 0x7e01, 0x8000, 1}, 2, 2),
		from(t, d, []tensor.BF16{0x3f80, 0x7fc1, 0x8000, 1}, 2, 2),
		from(t, d, []int64{1, 2, 3, 4}, 2, 2), from(t, d, []int32{1, 2, 3, 4}, 2, 2),
		from(t, d, []uint8{1, 2, 3, 4}, 2, 2), from(t, d, []bool{true, true, false, false}, 2, 2),
	} {
		v := must(t)(c.Transpose(0, 1))
		x, err := v.Contiguous(memory.Temporary, site)
		require.NoError(t, err)
		require.Equal(t, c.DType(), x.DType())
		require.True(t, tensor.Equal(v, x))
		require.False(t, tensor.Equal(c, x), "%v", c)
		x.Release()
	}
}

func TestCopyErrors(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 2, 3)
	require.EqualError(t, tensor.Copy(x, zeros(t, d, tensor.Float32, 3, 2)),
		"tensor: copy float32[3 2] to float32[2 3]: want equal dtypes and shapes")
	require.EqualError(t, tensor.Copy(x, zeros(t, d, tensor.Int32, 2, 3)),
		"tensor: copy int32[2 3] to float32[2 3]: want equal dtypes and shapes")
	wide := must(t)(zeros(t, d, tensor.Float32, 1, 3).Expand(2, 3))
	require.EqualError(t, tensor.Copy(wide, x),
		"tensor: copy float32[2 3]: the destination is expanded: several of its elements are one in memory")
	sq := zeros(t, d, tensor.Float32, 3, 3)
	require.EqualError(t, tensor.Copy(sq, must(t)(sq.Transpose(0, 1))),
		"tensor: copy float32[3 3]: source and destination overlap in one storage: copy from a Contiguous source")
	require.EqualError(t, tensor.Convert(must(t)(sq.Slice(0, 0, 2)), zeros(t, d, tensor.Bool, 3)),
		"tensor: convert bool[3] to float32[2 3]: want equal shapes")
	_, err := (&tensor.Tensor{}).Contiguous(memory.Other, site)
	require.EqualError(t, err, "tensor: copy of an empty tensor: it has no device")
	require.Zero(t, sq.Version(), "what was refused was not written")
}

// Two random views of one storage: what Copy accepts comes out as if the source had been copied aside first, and what
// it refuses really shares an element.
func TestCopyWithinOneStorage(t *testing.T) {
	d := device(t, memory.Config{})
	r := rand.New(rand.NewPCG(3, 4))
	accepted, refused := 0, 0
	for range 4000 {
		base, err := tensor.From(d, memory.Other, site, count[int32](60), 3, 4, 5)
		require.NoError(t, err)
		a, b := randomBox(t, r, base), randomBox(t, r, base)
		if !a.Spec().Equal(b.Spec()) {
			base.Release()
			continue
		}
		places := map[float64]bool{} // base counts, so values are places
		for _, p := range values(b) {
			places[p] = true
		}
		shared := false
		for _, p := range values(a) {
			shared = shared || places[p]
		}
		want := values(b)
		if err := tensor.Copy(a, b); err != nil {
			require.True(t, shared, "%v", err)
			refused++
		} else {
			require.Equal(t, want, values(a))
			accepted++
		}
		base.Release()
	}
	require.Greater(t, accepted, 300)
	require.Greater(t, refused, 20)
}

func randomBox(t *testing.T, r *rand.Rand, base *tensor.Tensor) *tensor.Tensor {
	v := *base
	for i := range v.Rank() {
		n := v.Dim(i)
		lo := r.IntN(n)
		v = *must(t)(v.Slice(i, lo, min(n, lo+1+r.IntN(2))))
	}
	if r.IntN(2) == 0 {
		v = *must(t)(v.Transpose(r.IntN(3), r.IntN(3)))
	}
	if i := r.IntN(3); v.Dim(i) == 1 {
		v = *must(t)(v.Squeeze(i))
	}
	return &v
}

// Neighbours in one storage are apart though they interleave.
func TestCopyColumnToColumn(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, count[float32](12), 3, 4)
	require.NoError(t, tensor.Copy(must(t)(x.Slice(1, 0, 2)), must(t)(x.Slice(1, 2, 4))))
	require.Equal(t, []float64{2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11}, values(x))

	// One run moves onto itself in either direction.
	y := from(t, d, count[float32](6), 6)
	require.NoError(t, tensor.Copy(must(t)(y.Slice(0, 1, 6)), must(t)(y.Slice(0, 0, 5))))
	require.Equal(t, []float64{0, 0, 1, 2, 3, 4}, values(y))
	require.NoError(t, tensor.Copy(must(t)(y.Slice(0, 0, 5)), must(t)(y.Slice(0, 1, 6))))
	require.Equal(t, []float64{0, 1, 2, 3, 4, 4}, values(y))
}

// Tensors of two dtypes over one buffer overlap in bytes.
func TestConvertWithinOneStorage(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, []float32{1, -2, 3, 4}, 4)
	ints := tensor.Over(x.Buffer(), tensor.Of(tensor.Int32, 4))
	require.NoError(t, tensor.Convert(&ints, x), "element on element")
	require.Equal(t, []float64{1, -2, 3, 4}, values(&ints))

	bytes := tensor.Over(x.Buffer(), tensor.Of(tensor.Uint8, 4))
	require.ErrorContains(t, tensor.Convert(&bytes, &ints), "overlap")
	halfs := tensor.Over(x.Buffer(), tensor.Of(tensor.Uint8, 16))
	require.NoError(t, tensor.Convert(must(t)(halfs.Slice(0, 8, 10)), must(t)(ints.Slice(0, 0, 2))), "apart")
	require.ErrorContains(t, tensor.Convert(must(t)(halfs.Slice(0, 7, 9)), must(t)(ints.Slice(0, 0, 2))), "overlap")
}

func TestHighRank(t *testing.T) {
	d := device(t, memory.Config{})
	shape := make([]int, 20)
	perm := make([]int, 20)
	for i := range shape {
		shape[i], perm[i] = 1, 19-i
	}
	for i := 0; i < 20; i += 3 {
		shape[i] = 2
	}
	x := from(t, d, count[int32](1<<7), shape...)
	v := must(t)(x.Permute(perm...))
	c, err := v.Contiguous(memory.Temporary, site)
	require.NoError(t, err)
	defer c.Release()
	require.Equal(t, values(v), values(c))
	require.True(t, tensor.Equal(c, v))
}

// A walk of more joined dimensions than it has room for on the stack.
func TestWalkBeyondItsRoom(t *testing.T) {
	d := device(t, memory.Config{})
	shape := make([]int, 18)
	for i := range shape {
		shape[i] = 2
	}
	x := zeros(t, d, tensor.Uint8, shape...)
	require.NoError(t, tensor.FillRange(x, 0, 1))
	perm := make([]int, 18)
	for i := range perm {
		perm[i] = 17 - i
	}
	v := must(t)(x.Permute(perm...))
	c, err := v.Contiguous(memory.Temporary, site)
	require.NoError(t, err)
	defer c.Release()
	require.Equal(t, values(v), values(c))
}

func TestCopyDoesNotAllocate(t *testing.T) {
	d := device(t, memory.Config{})
	a, b := zeros(t, d, tensor.Float32, 3, 4, 5), zeros(t, d, tensor.Float32, 5, 4, 3)
	v := must(t)(b.Transpose(0, 2))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Copy(a, v) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Equal(a, v) }))
	i := zeros(t, d, tensor.Int32, 3, 4, 5)
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Convert(i, v) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Fill(v, 3) }))
	require.Zero(t, testing.AllocsPerRun(10, func() { tensor.Copy(must2(a.Slice(0, 0, 3)), must2(a.Slice(0, 0, 3))) })-2,
		"one for each view")
}

func must2(x tensor.Tensor, _ error) *tensor.Tensor { return &x }

func BenchmarkCopyTransposed(b *testing.B) {
	d := device(b, memory.Config{})
	x, y := zeros(b, d, tensor.Float32, 512, 512), zeros(b, d, tensor.Float32, 512, 512)
	v := must(b)(x.Transpose(0, 1))
	b.SetBytes(y.Bytes())
	for b.Loop() {
		if err := tensor.Copy(y, v); err != nil {
			b.Fatal(err)
		}
	}
}
