package tensor_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// model is what a view means, without strides: the places of its elements in the base, listed in row-major order.
type model struct {
	shape []int
	at    []int
}

// pick builds a model of the given shape whose element idx is m's element src(idx).
func (m model) pick(shape []int, src func(idx []int) []int) model {
	out := model{shape: slices.Clone(shape), at: []int{}}
	indices(shape, func(idx []int) {
		flat := 0
		for i, x := range src(idx) {
			flat = flat*m.shape[i] + x
		}
		out.at = append(out.at, m.at[flat])
	})
	return out
}

// step makes one random view of x and of its model m. ok is false where Reshape rightly refuses.
func step(t *testing.T, r *rand.Rand, x *tensor.Tensor, m model) (tensor.Tensor, model, string) {
	rank := len(m.shape)
	dim := func() int { return r.IntN(rank) }
	kind := r.IntN(9)
	if rank == 0 && kind != 5 && kind != 6 {
		kind = 8
	}
	sign := func(d, rank int) int { return d - rank*r.IntN(2) } // name it from either end
	switch kind {
	case 0:
		d := dim()
		lo := r.IntN(m.shape[d] + 1)
		hi := lo + r.IntN(m.shape[d]-lo+1)
		v := must(t)(x.Slice(sign(d, rank), lo, hi))
		shape := slices.Clone(m.shape)
		shape[d] = hi - lo
		return *v, m.pick(shape, func(idx []int) []int {
			s := slices.Clone(idx)
			s[d] += lo
			return s
		}), fmt.Sprintf("slice %d %d:%d", d, lo, hi)
	case 1:
		d := dim()
		if m.shape[d] == 0 {
			return *x, m, "stay"
		}
		i := r.IntN(m.shape[d])
		v := must(t)(x.Select(sign(d, rank), i))
		return *v, m.pick(slices.Delete(slices.Clone(m.shape), d, d+1), func(idx []int) []int {
			return slices.Insert(slices.Clone(idx), d, i)
		}), fmt.Sprintf("select %d %d", d, i)
	case 2:
		a, b := dim(), dim()
		v := must(t)(x.Transpose(sign(a, rank), sign(b, rank)))
		swap := func(s []int) []int {
			s = slices.Clone(s)
			s[a], s[b] = s[b], s[a]
			return s
		}
		return *v, m.pick(swap(m.shape), swap), fmt.Sprintf("transpose %d %d", a, b)
	case 3:
		p := r.Perm(rank)
		v := must(t)(x.Permute(p...))
		shape := make([]int, rank)
		for i, d := range p {
			shape[i] = m.shape[d]
		}
		return *v, m.pick(shape, func(idx []int) []int {
			s := make([]int, rank)
			for i, d := range p {
				s[d] = idx[i]
			}
			return s
		}), fmt.Sprintf("permute %v", p)
	case 4:
		shape := slices.Clone(m.shape)
		for i, d := range shape {
			if d == 1 {
				shape[i] = r.IntN(4)
			}
		}
		v := must(t)(x.Expand(shape...))
		return *v, m.pick(shape, func(idx []int) []int {
			s := slices.Clone(idx)
			for i := range s {
				if m.shape[i] == 1 {
					s[i] = 0
				}
			}
			return s
		}), fmt.Sprintf("expand %v", shape)
	case 5:
		d := r.IntN(rank + 1)
		v := must(t)(x.Unsqueeze(sign(d, rank+1)))
		return *v, model{slices.Insert(slices.Clone(m.shape), d, 1), m.at}, fmt.Sprintf("unsqueeze %d", d)
	case 6:
		shape := factors(r, len(m.at))
		v, err := x.Reshape(shape...)
		if err != nil {
			require.False(t, x.IsContiguous(), "%v", err)
			return *x, m, "refused"
		}
		return v, model{shape, m.at}, fmt.Sprintf("reshape %v", shape)
	case 7:
		d := dim()
		lo := r.IntN(m.shape[d] + 1)
		hi, by := lo+r.IntN(m.shape[d]-lo+1), 1+r.IntN(3)
		v := must(t)(x.SliceStep(sign(d, rank), lo, hi, by))
		shape := slices.Clone(m.shape)
		shape[d] = (hi - lo + by - 1) / by
		return *v, m.pick(shape, func(idx []int) []int {
			s := slices.Clone(idx)
			s[d] = lo + by*s[d]
			return s
		}), fmt.Sprintf("slice %d %d:%d:%d", d, lo, hi, by)
	default:
		d := slices.Index(m.shape, 1)
		if d < 0 {
			return *x, m, "stay"
		}
		v := must(t)(x.Squeeze(sign(d, rank)))
		return *v, model{slices.Delete(slices.Clone(m.shape), d, d+1), m.at}, fmt.Sprintf("squeeze %d", d)
	}
}

// factors is a random shape of n elements.
func factors(r *rand.Rand, n int) []int {
	if n == 0 {
		return []int{r.IntN(3), 0, 2}
	}
	shape := []int{}
	for n > 1 && len(shape) < 5 {
		d := 1 + r.IntN(n)
		for n%d != 0 {
			d--
		}
		shape = append(shape, d)
		n /= d
	}
	if n > 1 {
		shape = append(shape, n)
	}
	return shape
}

func checkView(t *testing.T, x *tensor.Tensor, m model, trail []string) {
	require.True(t, slices.Equal(m.shape, x.Shape()), "%v: want %v, got %v", trail, m.shape, x.Shape())
	require.Equal(t, len(m.at), x.Elems())
	want := make([]float64, len(m.at))
	for i, p := range m.at {
		want[i] = float64(p)
	}
	require.Equal(t, want, values(x), "%v", trail)

	// Raw by strides, as kernels read it.
	raw, strides := tensor.Raw[int32](x), x.Strides()
	k := 0
	indices(m.shape, func(idx []int) {
		at := 0
		for i := range idx {
			require.Equal(t, strides[i], x.Stride(i))
			at += idx[i] * strides[i]
		}
		require.Equal(t, int32(m.at[k]), raw[at], "%v", trail)
		k++
	})
	if x.IsContiguous() {
		data := tensor.Data[int32](x)
		require.Len(t, data, len(m.at))
		for i := range data {
			require.Equal(t, int32(m.at[i]), data[i])
		}
	}
	require.Equal(t, isRowMajor(m.at), x.IsContiguous(), "%v: strides %v", trail, strides)

	c, err := x.Contiguous(memory.Temporary, site)
	require.NoError(t, err)
	defer c.Release()
	require.True(t, c.IsContiguous())
	require.Equal(t, want, values(c), "%v", trail)
	require.True(t, tensor.Equal(c, x))
}

// isRowMajor: contiguous is exactly to lie one after the other.
func isRowMajor(at []int) bool {
	for i := 1; i < len(at); i++ {
		if at[i] != at[i-1]+1 {
			return false
		}
	}
	return true
}

func TestRandomViews(t *testing.T) {
	d := device(t, memory.Config{})
	for seed := range uint64(400) {
		randomViews(t, d, seed)
	}
}

func randomViews(t *testing.T, d *memory.Device, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	shape := make([]int, r.IntN(5))
	for i := range shape {
		shape[i] = 1 + r.IntN(4)
	}
	n := elems(shape)
	base, err := tensor.From(d, memory.Other, site, count[int32](n), shape...)
	require.NoError(t, err)
	defer base.Release()
	x, m := *base, model{shape: shape}
	for i := range n {
		m.at = append(m.at, i)
	}
	trail := []string{fmt.Sprint(shape)}
	for range 6 {
		var what string
		x, m, what = step(t, r, &x, m)
		trail = append(trail, what)
		if len(m.at) > 500 {
			return
		}
		checkView(t, &x, m, trail)
	}
	require.Equal(t, 1, base.Buffer().Refs(), "views take no reference")
}

func FuzzViews(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		d, err := memory.NewDevice(memory.Config{Reserve: 1 << 20})
		require.NoError(t, err)
		randomViews(t, d, seed)
		require.NoError(t, d.Close())
	})
}

// Reshape of any tensor to any shape: an error, or the same elements in order; of a contiguous one, an error only where
// the counts differ.
func FuzzReshape(f *testing.F) {
	f.Add([]byte{2, 3}, []byte{3, 2}, true)
	f.Add([]byte{2, 0}, []byte{0}, false)
	f.Fuzz(func(t *testing.T, from, to []byte, swap bool) {
		d := device(t, memory.Config{Reserve: 1 << 20})
		shape := shapeOf(from)
		x := *fromCount(t, d, shape)
		if swap && len(shape) > 1 {
			x = *must(t)(x.Transpose(0, -1))
		}
		want := shapeOf(to)
		for i := range want {
			want[i]-- // -1 to 2
		}
		v, err := x.Reshape(want...)
		known := !slices.Contains(want, -1)
		if err == nil {
			require.Equal(t, values(&x), values(&v))
		} else if x.IsContiguous() && known {
			require.NotEqual(t, x.Elems(), elems(want), "%v", err)
		}
	})
}

func fromCount(t *testing.T, d *memory.Device, shape []int) *tensor.Tensor {
	return from(t, d, count[int32](elems(shape)), shape...)
}

// Slice takes any bounds: those in order and in range, and no others.
func FuzzSlice(f *testing.F) {
	f.Add([]byte{3, 2}, 1, 0, 2)
	f.Add([]byte{3}, -1, 2, 1)
	f.Fuzz(func(t *testing.T, from []byte, dim, lo, hi int) {
		d := device(t, memory.Config{Reserve: 1 << 20})
		shape := shapeOf(from)
		x := fromCount(t, d, shape)
		v, err := x.Slice(dim, lo, hi)
		rank := len(shape)
		ok := dim >= -rank && dim < rank
		if ok {
			n := shape[(dim+rank)%rank]
			ok = 0 <= lo && lo <= hi && hi <= n
		}
		require.Equal(t, ok, err == nil, "%v", err)
		if ok {
			require.Equal(t, hi-lo, v.Dim(dim))
		}
	})
}

func TestViewErrors(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 2, 3)
	tr := must(t)(x.Transpose(0, 1))
	err := func(_ tensor.Tensor, err error) error { return err }
	for _, c := range []struct {
		err  error
		want string
	}{
		{err(x.Slice(2, 0, 1)), "tensor: slice float32[2 3]: dim 2 of rank 2: want -2 to 1"},
		{err(x.Slice(1, 2, 1)), "tensor: slice float32[2 3]: [2:1] of dim 1, of size 3"},
		{err(x.Slice(-1, 0, 4)), "tensor: slice float32[2 3]: [0:4] of dim 1, of size 3"},
		{err(x.SliceStep(1, 0, 3, 0)), "tensor: slice float32[2 3]: step 0: want 1 or more"},
		{err(x.SliceStep(1, 0, 4, 2)), "tensor: slice float32[2 3]: [0:4] of dim 1, of size 3"},
		{err(x.Select(0, 2)), "tensor: select float32[2 3]: [2] of dim 0, of size 2: want 0 to 1"},
		{err(x.Select(0, -1)), "tensor: select float32[2 3]: [-1] of dim 0, of size 2: want 0 to 1"},
		{err(x.Select(5, 0)), "tensor: select float32[2 3]: dim 5 of rank 2: want -2 to 1"},
		{err(x.Transpose(0, 2)), "tensor: transpose float32[2 3]: dim 2 of rank 2: want -2 to 1"},
		{err(x.Transpose(-3, 0)), "tensor: transpose float32[2 3]: dim -3 of rank 2: want -2 to 1"},
		{err(x.Permute(0)), "tensor: permute float32[2 3] by [0]: want 2 dims"},
		{err(x.Permute(1, -1)), "tensor: permute float32[2 3] by [1 -1]: dim 1 twice"},
		{err(x.Permute(-1, 1)), "tensor: permute float32[2 3] by [-1 1]: dim 1 twice"},
		{err(x.Permute(0, 2)), "tensor: permute float32[2 3] by [0 2]: dim 2 of rank 2: want -2 to 1"},
		{err(x.Unsqueeze(3)), "tensor: unsqueeze float32[2 3]: dim 3 of rank 3: want -3 to 2"},
		{err(x.Squeeze(0)), "tensor: squeeze float32[2 3]: dim 0 is of size 2, want 1"},
		{err(x.Squeeze(2)), "tensor: squeeze float32[2 3]: dim 2 of rank 2: want -2 to 1"},
		{err(x.Reshape(4)), "tensor: reshape float32[2 3] to [4]: want 6 elements, got 4"},
		{err(x.Reshape(4, -1)), "tensor: reshape float32[2 3] to [4 -1]: no size for -1 gives 6 elements"},
		{err(x.Reshape(0, -1)), "tensor: reshape float32[2 3] to [0 -1]: no size for -1 gives 6 elements"},
		{err(x.Reshape(-1, -1)), "tensor: reshape float32[2 3] to [-1 -1]: -1 may stand once"},
		{err(x.Reshape(-2, -3)), "tensor: reshape float32[2 3] to [-2 -3]: a size is negative or too large"},
		{err(tr.Reshape(6)), "tensor: reshape float32[3 2] to [6]: strides [1 3] allow no such view: take Contiguous first"},
		{err(x.Expand(3)), "tensor: expand float32[2 3] to [3]: sizes must be equal or 1"},
		{err(x.Expand(2, 4)), "tensor: expand float32[2 3] to [2 4]: sizes must be equal or 1"},
		{err(x.Expand(-1, 2, 3)), "tensor: expand float32[2 3] to [-1 2 3]: a size is negative or too large"},
	} {
		require.EqualError(t, c.err, c.want)
	}
}

func TestExpandKeepsSizes(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, []float32{1, 2}, 2, 1)
	v := must(t)(x.Expand(3, -1, 4))
	require.Equal(t, []int{3, 2, 4}, v.Shape())
	require.Equal(t, []int{0, 1, 0}, v.Strides())
	require.Equal(t, int64(4*24), v.Bytes())
	require.Len(t, tensor.Raw[float32](v), 2)
	require.Equal(t, 2.0, v.At(2, 1, 3))
}

func TestBroadcastToView(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, []float32{1, 2, 3}, 3)
	same, wide := []int{3}, []int{2, 3}
	require.Zero(t, testing.AllocsPerRun(10, func() { x.BroadcastTo(same) }))
	v := x.BroadcastTo(wide)
	require.Equal(t, []float64{1, 2, 3, 1, 2, 3}, values(&v))
	require.PanicsWithValue(t, "tensor: expand float32[3] to [2]: sizes must be equal or 1",
		func() { x.BroadcastTo([]int{2}) })
}

func TestSliceStepOfManyIsTheFirst(t *testing.T) {
	d := device(t, memory.Config{})
	x := from(t, d, []float32{1, 2, 3, 4}, 2, 2)
	v := must(t)(x.SliceStep(1, 1, 2, math.MaxInt))
	require.Equal(t, []float64{2, 4}, values(v))
	require.Equal(t, 0, must(t)(x.SliceStep(1, 1, 1, math.MaxInt)).Elems())
}

// View functions say of a tensor without a buffer what they would give.
func TestUnbacked(t *testing.T) {
	x := tensor.Unbacked(tensor.Of(tensor.Float32, 2, 3))
	require.True(t, x.Empty())
	v := must(t)(x.Transpose(0, 1))
	require.Equal(t, []int{3, 2}, v.Shape())
	require.Equal(t, []int{1, 3}, v.Strides())
	require.Empty(t, tensor.Raw[float32](v))
	_, err := v.Reshape(6)
	require.ErrorContains(t, err, "allow no such view")
}

// Appending to a shape that was handed out must not write into another tensor's.
func TestShapesAreClipped(t *testing.T) {
	d := device(t, memory.Config{})
	x := zeros(t, d, tensor.Float32, 2, 3, 4)
	v := must(t)(x.Select(0, 0))
	a, b := append(v.Shape(), 7), append(v.Shape(), 8)
	require.Equal(t, []int{3, 4, 7}, a)
	require.Equal(t, []int{3, 4, 8}, b)
	require.Equal(t, []int{9, 4, 1}, v.AppendStrides([]int{9}))
}
