package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/internal/plantest"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// One value as several inputs of one op: the gradients meet in one destination, in the order of the inputs.
func TestOneValueTwice(t *testing.T) {
	for name, f := range map[string]func(s *autograd.Scope, x value) value{
		"linear":     func(s *autograd.Scope, x value) value { return ops.Linear(s, x, x, nil) },
		"matmul":     func(s *autograd.Scope, x value) value { return ops.MatMul(s, x, x) },
		"add":        func(s *autograd.Scope, x value) value { return ops.Add(s, x, x) },
		"layer_norm": func(s *autograd.Scope, x value) value { return ops.LayerNorm(s, x, 2, x, x, 1e-5) },
		"add_": func(s *autograd.Scope, x value) value {
			h := ops.Add(s, x, x)
			return ops.AddInPlace(s, h, h)
		},
		"add a row of itself": func(s *autograd.Scope, x value) value { return ops.Add(s, x, ops.Slice(s, x, 0, 1, 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, autograd.Config{})
			defer r.close()
			x := r.tensor(floats(3, 3).values(1), tensor.Float64)
			defer x.Release()
			f := func(s *autograd.Scope, in []value) []value { return []value{f(s, in[0])} }
			require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{x}, gradcheck.Config{}))
		})
	}
}

// model is a language model of one block, with a table that is embedding and output layer at once.
type model struct {
	table, norm, bias, up, upBias, down *autograd.Param
}

func newModel(r *rig, dt tensor.DType) *model {
	p := func(name string, shape ...int) *autograd.Param {
		a := floats(shape...).values(uint64(len(name)))
		for i := range a.data {
			a.data[i] /= 4
		}
		return r.param(name, a, dt)
	}
	return &model{p("table", 11, 6), p("norm", 6), p("bias", 6), p("up", 12, 6), p("upbias", 12), p("down", 6, 12)}
}

func (m *model) params() []*autograd.Param {
	return []*autograd.Param{m.table, m.norm, m.bias, m.up, m.upBias, m.down}
}

func (m *model) loss(s *autograd.Scope, tokens, targets value) value {
	return s.Do("model", func(s *autograd.Scope) value {
		x := ops.Embedding(s, m.table.Value(), tokens)
		h := s.Do("mlp", func(s *autograd.Scope) value {
			h := ops.LayerNorm(s, x, 1, m.norm.Value(), m.bias.Value(), 1e-5)
			h = ops.GELU(s, ops.Linear(s, h, m.up.Value(), m.upBias.Value()))
			halves := ops.Split(s, h, -1, 2)
			h = ops.AddInPlace(s, ops.ReLU(s, halves[0]), halves[1])
			return ops.Dropout(s, ops.MatMul(s, h, ops.Slice(s, m.down.Value(), 1, 0, 6)), 0.1)
		})
		return ops.CrossEntropy(s, ops.Linear(s, ops.Add(s, x, h), m.table.Value(), nil), targets)
	})
}

func (r *rig) tokens() (in, out *tensor.Tensor) {
	return r.tensor(idx(11, 4, 5).values(5), tensor.Int64), r.tensor(idx(11, 4, 5).values(6), tensor.Int64)
}

// All ops together: gradients of every parameter, tied ones included, against differences of the loss.
func TestTiedModel(t *testing.T) {
	r := newRig(t, autograd.Config{Seed: 3})
	defer r.close()
	m := newModel(r, tensor.Float64)
	in, out := r.tokens()
	defer in.Release()
	defer out.Release()
	loss := func() (v float64) {
		r.sess.SetRand(tensor.Stream{Seed: 3})
		r.ok(func(s *autograd.Scope) { v = m.loss(s.NoGrad(), s.Input(in), s.Input(out)).Item() })
		return v
	}
	r.ok(func(s *autograd.Scope) { m.loss(s, s.Input(in), s.Input(out)).Backward(s) })
	for _, p := range m.params() {
		x, g := tensor.Data[float64](p.Tensor()), tensor.Data[float64](p.Grad())
		for i := range x {
			const h = 1e-6
			was := x[i]
			x[i] = was + h
			up := loss()
			x[i] = was - h
			down := loss()
			x[i] = was
			require.InDelta(t, (up-down)/(2*h), g[i], 1e-7, "%s %d", p.Name(), i)
		}
	}
}

func TestTiedModelDryRun(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	m := newModel(r, tensor.Float32)
	in, out := r.tokens()
	defer in.Release()
	defer out.Release()
	plantest.Compare(t, r.sess, func(s *autograd.Scope) error {
		m.loss(s, s.Input(in), s.Input(out)).Backward(s)
		return nil
	})
	var owned int64
	for _, p := range m.params() {
		owned += 2 * p.Spec().Bytes()
	}
	require.Equal(t, owned+in.Bytes()+out.Bytes(), r.dev.Stats().Live)
}

// A frozen weight keeps no activation; a frozen input keeps no weight; nothing is kept twice.
func TestFrozen(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(3, 4).values(1), tensor.Float32)
	defer x.Release()
	w := r.param("w", floats(5, 4).values(2), tensor.Float32)
	b := r.param("b", floats(5).values(3), tensor.Float32)
	kept := func(grad bool) (list []autograd.SavedTensor) {
		r.ok(func(s *autograd.Scope) {
			v := s.Input(x)
			if grad {
				v.RequireGrad()
			}
			list = autograd.Saved(ops.Linear(s, v, w.Value(), b.Value()))
		})
		return list
	}
	require.Len(t, kept(true), 2)
	require.Len(t, kept(false), 1)
	require.EqualValues(t, x.Bytes(), kept(false)[0].Bytes)
	w.SetFrozen(true)
	require.Empty(t, kept(false), "the bias reads nothing")
	got := kept(true)
	require.Len(t, got, 1)
	require.Equal(t, autograd.InParam, got[0].Where)
	require.Zero(t, got[0].Bytes)
}

// What saves no input may have it overwritten, and what saves no output may have that.
func TestInPlace(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(3, 4).values(1), tensor.Float32)
	defer x.Release()
	w := r.param("w", floats(4, 4).values(2), tensor.Float32)
	one := floats(3, 4)
	one.set = []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	ones := r.tensor(one.values(0), tensor.Float32)
	defer ones.Release()
	grad := func(f func(s *autograd.Scope, h value) value) (g array) {
		r.ok(func(s *autograd.Scope) {
			w.ZeroGrad()
			f(s, ops.Linear(s, s.Input(x), w.Value(), nil)).Backward(s, autograd.WithGrad(ones))
			g = read(w.Grad())
		})
		w.ZeroGrad()
		return g
	}
	a := grad(func(s *autograd.Scope, h value) value { return ops.Add(s, ops.ReLU(s, h), h) })
	b := grad(func(s *autograd.Scope, h value) value {
		y := ops.ReLU(s, h) // keeps its mask, not y
		return ops.AddInPlace(s, y, h)
	})
	require.Equal(t, a, b)
	r.fails(func(s *autograd.Scope) {
		h := ops.Linear(s, s.Input(x), w.Value(), nil)
		y := ops.GELU(s, h) // keeps h
		ops.AddInPlace(s, h, y).Backward(s, autograd.WithGrad(ones))
	}, "gelu", "modified by an inplace operation")
	r.fails(func(s *autograd.Scope) {
		h := ops.Split(s, ops.Linear(s, s.Input(x), w.Value(), nil), -1, 2)
		ops.AddInPlace(s, h[0], h[1])
	}, "output 0 of split", "multiple views")
}

// Integers are added, also in place, and have no gradients.
func TestAddIntegers(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	for _, dt := range []tensor.DType{tensor.Int64, tensor.Int32} {
		x := r.tensor(array{[]int{2, 2}, []float64{1, -2, 3, 1 << 30}}, dt)
		y := r.tensor(array{[]int{2}, []float64{10, -1}}, dt)
		r.ok(func(s *autograd.Scope) {
			sum := ops.Add(s, s.Input(x), s.Input(y))
			require.Equal(t, dt, sum.DType())
			require.False(t, sum.RequiresGrad())
			require.Equal(t, []float64{11, -3, 13, 1<<30 - 1}, read(sum.Tensor()).data)
			require.Equal(t, []float64{21, -4, 23, 1<<30 - 2}, read(ops.AddInPlace(s, sum, s.Input(y)).Tensor()).data)
		})
		x.Release()
		y.Release()
	}
}

// Views take no bytes; their gradients share the base's one buffer; what is not covered is zero.
func TestViewsTakeNoBytes(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	w := r.param("w", floats(4, 6).values(1), tensor.Float32)
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		parts := ops.Split(s, ops.Slice(s, w.Value(), 0, 1, 3), -1, 3)
		require.Equal(t, live, r.dev.Stats().Live)
		for _, p := range parts {
			require.Same(t, w.Tensor().Buffer(), p.Tensor().Buffer())
		}
		y := ops.Add(s, parts[0], parts[2])
		g := r.tensor(array{[]int{2, 2}, []float64{1, 2, 3, 4}}, tensor.Float32)
		defer g.Release()
		y.Backward(s, autograd.WithGrad(g))
		require.Equal(t, live+2*y.Spec().Bytes()+w.Spec().Bytes(), r.dev.Stats().Live)
	})
	require.Equal(t, []float64{
		0, 0, 0, 0, 0, 0,
		1, 2, 0, 0, 1, 2,
		3, 4, 0, 0, 3, 4,
		0, 0, 0, 0, 0, 0,
	}, read(w.Grad()).data)
	require.Equal(t, w.Spec().Bytes(), r.dev.Stats().LiveByKind[memory.Grad])
}

// Scratch is all that Lanes changes: a product's panels for each lane.
func TestLanesDecideScratch(t *testing.T) {
	peak := func(lanes, workers int) int64 {
		r := newRig(t, autograd.Config{Lanes: lanes, Workers: workers})
		defer r.close()
		x := r.tensor(newArray(64, 256), tensor.Float32) // large products share their panels
		w := r.tensor(newArray(256, 256), tensor.Float32)
		defer x.Release()
		defer w.Release()
		r.dev.ResetPeak()
		r.ok(func(s *autograd.Scope) { ops.Linear(s, s.Input(x), s.Input(w), nil) })
		return r.dev.Stats().PeakByKind[memory.Scratch]
	}
	require.Equal(t, peak(1, 1), peak(1, 7))
	require.Equal(t, 4*peak(1, 1), peak(4, 2))
}
