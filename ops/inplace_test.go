package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// Gradients written over what died have the bits of those with buffers of their own, for every op whose rule allows it,
// in each float type, small and cut into chunks; and it really happens.
func TestOverwritingChangesNoBit(t *testing.T) {
	happened := map[string]bool{}
	eachRow(t, func(t *testing.T, r *row) {
		if entryOf(t, r.entry).Op.Rule().Over == nil {
			t.Skip("the rule allows none")
		}
		for _, in := range [][]arg{r.in, r.large} {
			if in == nil {
				continue
			}
			for _, dt := range floatTypes {
				var res [2][]array
				for i, apart := range []bool{true, false} {
					j := r.job(t, autograd.Config{NoOverwrite: apart}, in, dt, plain)
					j.sess.SetRand(tensor.Stream{Seed: seed})
					body := func(s *autograd.Scope) error { res[i] = j.once(s); return nil }
					plan, err := j.sess.Plan(func(s *autograd.Scope) error { j.once(s); return nil }, autograd.PlanConfig{Steps: 1})
					require.NoError(t, err)
					for _, u := range plan.InPlace {
						happened[r.entry] = happened[r.entry] || u.Op == entryOf(t, r.entry).Op.Rule().Name+"'"
						require.False(t, apart && u.Op == entryOf(t, r.entry).Op.Rule().Name+"'")
					}
					require.NoError(t, j.step(func(s *autograd.Scope) { _ = body(s) }))
					j.close()
				}
				require.True(t, sameBits(res[0], res[1]), "%s", dt)
			}
		}
	})
	for _, e := range ops.Catalog() {
		if e.Op.Rule().Over != nil {
			require.True(t, happened[e.Func], "%s never wrote over anything", e.Func)
		}
	}
}

// once runs forward and backward without keeping the graph, of values that nobody else holds, and gives the gradients.
func (j *job) once(s *autograd.Scope) (grads []array) {
	leaves := j.inputs(s, true)
	s.Do("", func(s *autograd.Scope) value {
		mine := make([]value, len(leaves))
		for i, v := range leaves {
			if mine[i] = v; v.RequiresGrad() {
				mine[i] = ops.AddScalar(s, v, 0)
			}
		}
		ys := j.row.call(s, mine)
		s.Free(mine...)
		for k, y := range ys {
			if y.RequiresGrad() {
				y.Backward(s, autograd.WithGrad(j.seeds[k]))
			}
		}
		return nil
	})
	for _, v := range leaves {
		g := array{}
		if v.RequiresGrad() && v.Grad() != nil && !s.Dry() {
			g = read(v.Grad())
		}
		grads = append(grads, g)
	}
	return grads
}

func sameBits(a, b []array) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if near(a[i], b[i], 0, 0) != nil {
			return false
		}
	}
	return true
}

// Strided values are written over where they lie.
func TestInPlaceOnViews(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	base := array{[]int{2, 4}, []float64{1, -2, 3, -4, -5, 6, -7, 8}}
	x := r.tensor(base, tensor.Float32)
	defer x.Release()
	for _, c := range []struct {
		name string
		f    func(s *autograd.Scope, v value) value
		want [4]float64 // of columns 1 and 2
	}{
		{"relu_", ops.ReLUInPlace, [4]float64{0, 3, 6, 0}},
		{"zero_", ops.Zero, [4]float64{0, 0, 0, 0}},
		{"dropout_ of all", func(s *autograd.Scope, v value) value { return ops.DropoutInPlace(s, v, 1) }, [4]float64{0, 0, 0, 0}},
		{"mul_ by itself", func(s *autograd.Scope, v value) value { return ops.MulInPlace(s, v, v.Detach(s)) }, [4]float64{4, 9, 36, 49}},
	} {
		r.ok(func(s *autograd.Scope) {
			y := ops.AddScalar(s, s.Input(x), 0)
			live := r.dev.Stats().Live
			v := c.f(s, ops.Slice(s, y, 1, 1, 3))
			require.Equal(t, live, r.dev.Stats().Live, c.name)
			require.Equal(t, []float64{c.want[0], c.want[1], c.want[2], c.want[3]}, read(v.Tensor()).data, c.name)
			require.Equal(t, [2]float64{1, -4}, [2]float64{y2(v, 0), y2(v, 3)}, "the columns beside it are as they were")
		})
	}
}

// y2 is element i of the storage behind v.
func y2(v value, i int) float64 {
	return float64(tensor.Data[float32](&[]tensor.Tensor{tensor.Over(v.Tensor().Buffer(), tensor.Of(tensor.Float32, 8))}[0])[i])
}

// What goes wrong, at once or at backward, in torch's words.
func TestInPlaceIsRefused(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(array{[]int{2, 2}, []float64{1, -2, 3, 4}}, tensor.Float64)
	whole := r.tensor(array{[]int{2}, []float64{1, 2}}, tensor.Int64)
	defer x.Release()
	defer whole.Release()
	w := r.param("w", array{[]int{2}, []float64{1, 2}}, tensor.Float64)
	type S = *autograd.Scope
	mine := func(s S) value { return ops.AddScalar(s, s.Input(x).RequireGrad(), 0) }
	for _, c := range []struct {
		text string
		f    func(s S)
	}{
		{"relu_[float64[2 2]]: a leaf that requires grad is being used in an in-place operation", func(s S) { ops.ReLUInPlace(s, s.Input(x).RequireGrad()) }},
		{"zero_[w:float64[2]]: a leaf that requires grad", func(s S) { ops.Zero(s, w.Value()) }},
		{"dropout_[float64[2 2]]: a view of a leaf that requires grad", func(s S) { ops.DropoutInPlace(s, ops.Transpose(s, s.Input(x).RequireGrad(), 0, 1), 0.5) }},
		{"is one of multiple views that it returned", func(s S) { ops.ReLUInPlace(s, ops.Split(s, mine(s), 0, 2)[0]) }},
		{"more than one element of the written-to tensor refers to a single memory location", func(s S) { ops.ReLUInPlace(s, ops.Expand(s, ops.Sum(s, mine(s), ops.Over(0).Keep()), 3, 2)) }},
		{"input 1 requires a gradient, which reads input 0 as it was before this in-place operation: use Mul, or Detach input 1", func(s S) { ops.MulInPlace(s, mine(s), w.Value()) }},
		{"mul_[float64[2] float64[2 2]]: output with shape [2] doesn't match the broadcast shape [2 2]", func(s S) { ops.MulInPlace(s, ops.Sum(s, mine(s), ops.Over(0)), s.Input(x)) }},
		{"relu_[int64[2]]: want a float dtype", func(s S) { ops.ReLUInPlace(s, s.Input(whole)) }},
		{"mul_[int64[2] float64[2]]: want equal dtypes", func(s S) { ops.MulInPlace(s, s.Input(whole), w.Value().Detach(s)) }},

		{"modified by an inplace operation: float64[2 2], which is output 0 of sigmoid, is at version 1; expected version 0", func(s S) { // saved by its maker
			ops.Sum(s, ops.ReLUInPlace(s, ops.Sigmoid(s, mine(s)))).Backward(s)
		}},
		{"modified by an inplace operation", func(s S) { // saved by a reader
			h := mine(s)
			y := ops.Square(s, h)
			ops.Sum(s, ops.Add(s, y, ops.ReLUInPlace(s, h))).Backward(s)
		}},
		{"modified by an inplace operation", func(s S) { // through another view of the storage
			h := mine(s)
			y := ops.Square(s, h)
			ops.Sum(s, ops.Add(s, y, ops.Transpose(s, ops.MulInPlace(s, ops.Transpose(s, h, 0, 1), s.Input(x)), 0, 1))).Backward(s)
		}},
		{"modified by an inplace operation", func(s S) { // a residual over what the branch has saved
			h := mine(s)
			ops.Sum(s, ops.AddInPlace(s, h, ops.GELU(s, h))).Backward(s)
		}},
		{"was overwritten by an in-place operation", func(s S) {
			h := mine(s)
			ops.ReLUInPlace(s, h)
			ops.Neg(s, h)
		}},
	} {
		r.fails(c.f, c.text)
	}
}

// What torch's users rely on: free and legal behind layers that save nothing of their output, with the gradients of the
// ops that make new values.
func TestInPlaceBehindLayers(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	w := r.param("w", floats(5, 4).values(1), tensor.Float64)
	b := r.param("b", floats(5).values(2), tensor.Float64)
	x := r.tensor(floats(3, 4).values(3), tensor.Float64)
	defer x.Release()
	factor := r.tensor(floats(3, 5).values(4), tensor.Float64)
	defer factor.Release()
	var want [2]array
	for _, inPlace := range []bool{false, true} {
		r.sess.SetRand(tensor.Stream{Seed: seed})
		r.ok(func(s *autograd.Scope) {
			h := ops.Linear(s, s.Input(x), w.Value(), b.Value())
			if inPlace {
				h = ops.MulInPlace(s, ops.DropoutInPlace(s, ops.ReLUInPlace(s, h), 0.5), s.Input(factor))
			} else {
				h = ops.Mul(s, ops.Dropout(s, ops.ReLU(s, h), 0.5), s.Input(factor))
			}
			ops.Mean(s, ops.Square(s, h)).Backward(s)
		})
		got := [2]array{read(w.Grad()), read(b.Grad())}
		if !inPlace {
			want = got
		}
		require.Equal(t, want, got)
		w.ZeroGrad()
		b.ZeroGrad()
	}
}

// Where a gradient or a saved value has another holder, it is not written over: the same bits with and without.
func TestOverwritingLeavesWhatOthersHold(t *testing.T) {
	type S = *autograd.Scope
	retained := func(s S, loss value) {
		for range 3 {
			loss.Backward(s, autograd.RetainGraph())
		}
	}
	for name, f := range map[string]func(s S, x value) []array{
		"residual": func(s S, x value) []array {
			ops.Mean(s, ops.Square(s, ops.Add(s, ops.ReLU(s, x), x))).Backward(s)
			return nil
		},
		"two readers": func(s S, x value) []array {
			h := ops.Tanh(s, x)
			ops.Mean(s, ops.Mul(s, ops.GELU(s, h), ops.SiLU(s, h))).Backward(s)
			return nil
		},
		"the graph is kept": func(s S, x value) []array {
			retained(s, ops.Mean(s, ops.SwiGLU(s, ops.MulScalar(s, x, 2), ops.Neg(s, x))))
			return nil
		},
		"logits that are kept": func(s S, x value) []array {
			retained(s, ops.CrossEntropy(s, ops.MulScalar(s, x, 2), ops.ArgMax(s, x, ops.Over(1))))
			return nil
		},
		"logits in use": func(s S, x value) []array {
			z := ops.MulScalar(s, x, 2)
			ops.CrossEntropy(s, z, ops.ArgMax(s, x, ops.Over(1))).Backward(s)
			return []array{read(z.Tensor())}
		},
		"a captured gradient": func(s S, x value) []array {
			h := ops.MulScalar(s, x, 2)
			y := ops.Exp(s, h)
			g := autograd.Grad(s, ops.Mean(s, ops.Square(s, y)), []value{x, h, y})
			return []array{read(g[0].Tensor()), read(g[1].Tensor()), read(g[2].Tensor())}
		},
		"a gradient that a hook looked at": func(s S, x value) (seen []array) {
			y := ops.Sigmoid(s, ops.MulScalar(s, x, 2))
			y.OnGrad(func(_ S, g value) value { seen = append(seen, read(g.Tensor())); return nil })
			ops.Mean(s, ops.Square(s, y)).Backward(s)
			return seen
		},
		"views": func(s S, x value) []array {
			h := ops.MulScalar(s, x, 3)
			parts := ops.Split(s, h, 1, 2)
			ops.Mean(s, ops.Mul(s, ops.ReLU(s, parts[0]), ops.Exp(s, ops.Reshape(s, parts[1], 4, 3)))).Backward(s)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var res [2][]array
			for i, apart := range []bool{true, false} {
				r := newRig(t, autograd.Config{NoOverwrite: apart})
				x := r.tensor(floats(4, 6).values(1), tensor.Float32)
				r.ok(func(s *autograd.Scope) {
					v := s.Input(x).RequireGrad()
					res[i] = f(s, v)
					if v.Grad() != nil {
						res[i] = append(res[i], read(v.Grad()))
					}
				})
				x.Release()
				r.close()
			}
			require.NotEmpty(t, res[0])
			require.True(t, sameBits(res[0], res[1]))
		})
	}
}
