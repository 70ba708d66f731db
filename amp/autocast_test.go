package amp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

type (
	scope = *autograd.Scope
	value = *autograd.Value
)

var site = memory.Site{Op: "test"}

// rig is a session with what a test makes on it.
type rig struct {
	t    *testing.T
	dev  *memory.Device
	sess *autograd.Session
	made []*tensor.Tensor
}

func newRig(t *testing.T) *rig { return newRigWith(t, 2) }

func newRigWith(t *testing.T, workers int) *rig {
	dev, err := memory.NewDevice(memory.Config{})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1, Workers: workers})
	require.NoError(t, err)
	r := &rig{t: t, dev: dev, sess: sess}
	t.Cleanup(func() {
		for _, x := range r.made {
			x.Release()
		}
		require.NoError(t, sess.Close())
		require.NoError(t, dev.Close(), "something is still alive")
	})
	return r
}

// tensor is one of random numbers.
func (r *rig) tensor(dt tensor.DType, shape ...int) *tensor.Tensor {
	r.t.Helper()
	x, err := tensor.Zeros(r.dev, memory.Input, site, tensor.Of(dt, shape...))
	require.NoError(r.t, err)
	if dt.IsFloat() {
		require.NoError(r.t, tensor.FillNormal(x, &tensor.Stream{Seed: uint64(len(r.made))}, 0, 1))
	}
	r.made = append(r.made, x)
	return x
}

func (r *rig) param(dt tensor.DType, shape ...int) *autograd.Param {
	r.t.Helper()
	p, err := r.sess.NewParam(fmt.Sprintf("p%v", shape), tensor.Of(dt, shape...), func(x *tensor.Tensor, s *tensor.Stream) error {
		return tensor.FillNormal(x, s, 0, 1)
	})
	require.NoError(r.t, err)
	return p
}

func (r *rig) step(f func(s scope)) error {
	return r.sess.Step(context.Background(), func(s *autograd.Scope) error { f(s); return nil })
}

func (r *rig) ok(f func(s scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(f))
}

// Each class gives the dtype that it says, for the inputs that it may get.
func TestClasses(t *testing.T) {
	const f32, f64, low = tensor.Float32, tensor.Float64, tensor.BFloat16
	r := newRig(t)
	in := map[tensor.DType]*tensor.Tensor{f32: r.tensor(f32, 4, 4), f64: r.tensor(f64, 4, 4), low: r.tensor(low, 4, 4)}
	type op = func(s scope, a, b value) value
	one := func(f func(scope, value) value) op { return func(s scope, a, _ value) value { return f(s, a) } }
	sum := one(func(s scope, x value) value { return ops.Sum(s, x) })
	soft := one(func(s scope, x value) value { return ops.Softmax(s, x, -1) })
	for _, c := range []struct {
		name    string
		f       op
		a, b, y tensor.DType
	}{
		{"matmul", ops.MatMul, f32, f32, low},
		{"matmul", ops.MatMul, f32, low, low},
		{"matmul", ops.MatMul, low, low, low},
		{"matmul", ops.MatMul, f64, f64, f64},
		{"exp", one(ops.Exp), low, low, f32},
		{"exp", one(ops.Exp), f32, f32, f32},
		{"sum", sum, low, low, f32},
		{"sum", sum, f64, f64, f64},
		{"softmax", soft, low, low, low},
		{"softmax", soft, f32, f32, f32},
		{"gelu", one(ops.GELU), low, low, low},
		{"add", ops.Add, low, f32, f32},
		{"add", ops.Add, low, low, low},
		{"mul", ops.Mul, f32, low, f32},
		{"cat", func(s scope, a, b value) value { return ops.Cat(s, 0, a, b) }, low, f32, f32},
		{"cat", func(s scope, a, b value) value { return ops.Cat(s, 0, a, b) }, low, low, low},
	} {
		r.ok(func(s scope) {
			s = s.WithAutocast(amp.BFloat16)
			a, b := s.Input(in[c.a]).RequireGrad(), s.Input(in[c.b]).RequireGrad()
			y := c.f(s, a, b)
			require.Equal(t, c.y, y.DType(), "%s of %s and %s", c.name, c.a, c.b)
			if y.DType() != f64 {
				y = ops.Sum(s, y)
			} else {
				y = ops.Sum(s.WithAutocast(amp.Off), y)
			}
			y.Backward(s.WithAutocast(amp.Off))
			require.Equal(t, c.a, a.Grad().DType(), "a gradient has the dtype of its leaf")
		})
	}
}

// Float64 beside float32 is not cast for: it is refused as without autocast.
func TestFloat64IsUntouched(t *testing.T) {
	r := newRig(t)
	x, w := r.tensor(tensor.Float64, 2, 3), r.param(tensor.Float32, 4, 3)
	err := r.step(func(s scope) { ops.Linear(s.WithAutocast(amp.BFloat16), s.Input(x), w.Value(), nil) })
	require.ErrorContains(t, err, "want equal dtypes")
}

// What a low op keeps is the rounded value, and of a parameter nothing; gradients of float32 parameters are float32, and
// close to those without autocast.
func TestLinearKeepsHalf(t *testing.T) {
	r := newRig(t)
	x, w, b := r.tensor(tensor.Float32, 8, 16), r.param(tensor.Float32, 4, 16), r.param(tensor.Float32, 4)
	run := func(p autograd.CastPolicy) (bytes int64, grads [][]float32) {
		r.ok(func(s scope) {
			y := ops.Linear(s.WithAutocast(p), ops.ReLU(s, s.Input(x).RequireGrad()), w.Value(), b.Value())
			for _, e := range autograd.Saved(y) {
				if e.Op == "linear" {
					bytes += e.Bytes
				}
			}
			ops.Sum(s, ops.Cast(s, y, tensor.Float32)).Backward(s)
			for _, p := range []*autograd.Param{w, b} {
				require.Equal(t, tensor.Float32, p.Grad().DType())
				grads = append(grads, append([]float32(nil), tensor.Data[float32](p.Grad())...))
				p.ZeroGrad()
			}
		})
		return bytes, grads
	}
	full, want := run(amp.Off)
	low, got := run(amp.BFloat16)
	require.EqualValues(t, 8*16*4, full)
	require.EqualValues(t, 8*16*2, low)
	require.InDeltaSlice(t, want[0], got[0], 0.1)
	require.NotEqual(t, want[0], got[0])
	require.Equal(t, want[1], got[1], "a count")
}

// A policy ends with its scope, inner ones win, and Off is off.
func TestNesting(t *testing.T) {
	r := newRig(t)
	x := r.tensor(tensor.Float32, 4, 4)
	dt := func(s scope) tensor.DType { return ops.MatMul(s, s.Input(x), s.Input(x)).DType() }
	r.ok(func(s scope) {
		in := s.WithAutocast(amp.BFloat16)
		require.Equal(t, tensor.BFloat16, dt(in))
		require.Equal(t, tensor.Float16, dt(in.WithAutocast(amp.Float16)))
		require.Equal(t, tensor.Float32, dt(in.WithAutocast(amp.Off)))
		require.Equal(t, tensor.Float32, dt(s))
		in.Do("child", func(s scope) value { require.Equal(t, tensor.BFloat16, dt(s)); return nil })
	})
	err := r.step(func(s scope) { s.WithAutocast(autograd.CastPolicy{Low: tensor.Int64}) })
	require.ErrorContains(t, err, "autocast to int64: want float16 or bfloat16")
}

// Outside a region nothing is promoted.
func TestMixedWithoutAutocast(t *testing.T) {
	r := newRig(t)
	x, y, z := r.tensor(tensor.Float32, 2), r.tensor(tensor.BFloat16, 2), r.tensor(tensor.Float16, 2)
	require.ErrorContains(t, r.step(func(s scope) { ops.Add(s, s.Input(x), s.Input(y)) }), "want equal dtypes; convert with Cast, or work under autocast")
	require.ErrorContains(t, r.step(func(s scope) { ops.Add(s.WithAutocast(amp.BFloat16), s.Input(z), s.Input(y)) }), "want equal dtypes")
}

// torch's cache keeps the copy of a weight that has changed since: here there is none.
func TestWeightChangedInsideTheRegion(t *testing.T) {
	r := newRig(t)
	x, w := r.tensor(tensor.Float32, 2, 3), r.param(tensor.Float32, 4, 3)
	r.ok(func(s scope) {
		s = s.WithAutocast(amp.BFloat16)
		before := read(ops.Linear(s.NoGrad(), s.Input(x), w.Value(), nil))
		require.NoError(t, tensor.Fill(w.Tensor(), 0))
		require.NotEqual(t, before, read(ops.Linear(s, s.Input(x), w.Value(), nil)))
		require.Equal(t, make([]float64, 8), read(ops.Linear(s, s.Input(x), w.Value(), nil)))
	})
	// between forward and backward it is refused, as anywhere
	err := r.step(func(s scope) {
		y := ops.Linear(s.WithAutocast(amp.BFloat16), ops.ReLU(s, s.Input(x).RequireGrad()), w.Value(), nil)
		require.NoError(t, tensor.Fill(w.Tensor(), 1))
		ops.Sum(s, y).Backward(s)
	})
	require.ErrorContains(t, err, "modified by an inplace operation")
}

// A first use under NoGrad leaves nothing behind that would lose the gradient of the second.
func TestFirstUseUnderNoGrad(t *testing.T) {
	r := newRig(t)
	x, w := r.tensor(tensor.Float32, 2, 3), r.param(tensor.Float32, 4, 3)
	r.ok(func(s scope) {
		s = s.WithAutocast(amp.BFloat16)
		ops.Linear(s.NoGrad(), s.Input(x), w.Value(), nil)
		ops.Sum(s, ops.Linear(s, s.Input(x), w.Value(), nil)).Backward(s)
		require.NotNil(t, w.Grad())
		w.ZeroGrad()
	})
}

// In-place operations are not autocast: the dtype of what is written over stays.
func TestInPlaceKeepsDType(t *testing.T) {
	r := newRig(t)
	x, y := r.tensor(tensor.BFloat16, 4), r.tensor(tensor.Float32, 4)
	r.ok(func(s scope) {
		s = s.WithAutocast(amp.BFloat16)
		require.Equal(t, tensor.BFloat16, ops.AddInPlace(s, ops.Neg(s, s.Input(x)), s.Input(y)).DType())
		require.Equal(t, tensor.Float32, ops.AddInPlace(s, ops.Neg(s, s.Input(y)), s.Input(x)).DType())
	})
}

// Backward inside the region takes the dtypes of forward.
func TestBackwardInsideTheRegion(t *testing.T) {
	r := newRig(t)
	x, w := r.tensor(tensor.Float32, 2, 3), r.param(tensor.Float32, 4, 3)
	var grads [2][]float32
	for i := range grads {
		r.ok(func(s scope) {
			in := s.WithAutocast(amp.Float16)
			loss := ops.Sum(in, ops.Linear(in, s.Input(x), w.Value(), nil))
			if i == 0 {
				in = s
			}
			loss.Backward(in)
			grads[i] = append(grads[i], tensor.Data[float32](w.Grad())...)
			w.ZeroGrad()
		})
	}
	require.Equal(t, grads[0], grads[1])
}

func read(v value) []float64 {
	x := make([]float64, 0, v.Tensor().Elems())
	for i := range v.Dim(0) {
		for k := range v.Dim(1) {
			x = append(x, v.Tensor().At(i, k))
		}
	}
	return x
}
