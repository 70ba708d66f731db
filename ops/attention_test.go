package ops_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// step runs attention forward and backward on leaves made of x, cut by the given function into q, k, v.
type attentionRun struct {
	*rig
	x   []*tensor.Tensor
	cut func(s *autograd.Scope, x []value) (q, k, v value)
	cfg ops.AttentionConfig
}

// run gives the output and the leaves' gradients; the gradient of the output is random.
func (a *attentionRun) run() (out array, grads []array) {
	a.t.Helper()
	a.sess.SetRand(tensor.Stream{Seed: seed})
	a.ok(func(s *autograd.Scope) {
		leaves := make([]value, len(a.x))
		for i, x := range a.x {
			leaves[i] = s.Input(x).RequireGrad()
		}
		q, k, v := a.cut(s, leaves)
		y := ops.Attention(s, q, k, v, a.cfg)
		g := a.tensor(floats(y.Shape()...).values(9), y.DType())
		s.OnClose(g.Release)
		y.Backward(s, autograd.WithGrad(g))
		out = read(y.Tensor())
		for _, x := range leaves {
			grads = append(grads, read(x.Grad()))
		}
	})
	return out, grads
}

func (a *attentionRun) release() {
	for _, x := range a.x {
		x.Release()
	}
	a.close()
}

func three(_ *autograd.Scope, x []value) (q, k, v value) { return x[0], x[1], x[2] }

// q, k and v that lie in one buffer are not copied, and neither are their gradients: the op allocates its outputs, the one
// gradient buffer and scratch, and nothing else.
func TestAttentionInOneBuffer(t *testing.T) {
	const nt, d, hq, hkv = 70, 4, 4, 2
	for _, batch := range []int{1, 4} { // by rows and columns, and by heads
		whole := floats(batch, nt, hq+2*hkv, d).values(1)
		part := func(lo, hi int) array { return refSlice(2, lo, hi)([]array{whole}) }
		cfg := ops.AttentionConfig{Causal: true, Dropout: 0.2}

		apart := &attentionRun{rig: newRig(t, autograd.Config{}), cut: three, cfg: cfg}
		for _, p := range []array{part(0, hq), part(hq, hq+hkv), part(hq+hkv, hq+2*hkv)} {
			apart.x = append(apart.x, apart.tensor(p, tensor.Float32))
		}
		want, grads := apart.run()
		apart.release()

		one := &attentionRun{rig: newRig(t, autograd.Config{}), cfg: cfg}
		one.x = []*tensor.Tensor{one.tensor(whole, tensor.Float32)}
		one.cut = func(s *autograd.Scope, x []value) (q, k, v value) {
			p := ops.SplitSizes(s, x[0], 2, hq, hkv, hkv)
			return p[0], p[1], p[2]
		}
		var allocs []string
		one.dev.SetTrace(func(e memory.Event) {
			if e.Act == memory.Alloc && strings.HasPrefix(e.Site.Op, "scaled") && e.Kind != memory.Scratch {
				allocs = append(allocs, fmt.Sprint(e.Kind, " ", e.Bytes))
			}
		})
		got, grad := one.run()
		one.dev.SetTrace(nil)
		one.release()

		require.Equal(t, want, got)
		for i, cut := range [][2]int{{0, hq}, {hq, hq + hkv}, {hq + hkv, hq + 2*hkv}} {
			require.Equal(t, grads[i], refSlice(2, cut[0], cut[1])(grad))
		}
		require.Equal(t, []string{
			fmt.Sprint("temporary ", batch*nt*hq*d*4), fmt.Sprint("temporary ", batch*nt*hq*4), // out, log-sum-exp
			fmt.Sprint("temporary ", batch*nt*(hq+2*hkv)*d*4),
		}, allocs)
	}
}

// Gradients that lie on one another: of one value that is q, k and v, and of cuts that overlap.
func TestAttentionOfOverlappingInputs(t *testing.T) {
	for _, heads := range []int{1, 8} {
		x := floats(1, 71, heads, 3).values(1)
		for name, cut := range map[string]func(s *autograd.Scope, x value) (q, k, v value){
			"one value": func(_ *autograd.Scope, x value) (q, k, v value) { return x, x, x },
			"k is v":    func(s *autograd.Scope, x value) (q, k, v value) { return ops.Slice(s, x, 1, 5, 30), x, x },
			"steps": func(s *autograd.Scope, x value) (q, k, v value) {
				return ops.Slice(s, x, 1, 0, 69), ops.Slice(s, x, 1, 1, 70), ops.Slice(s, x, 1, 2, 71)
			},
		} {
			t.Run(fmt.Sprint(name, " ", heads), func(t *testing.T) {
				one := &attentionRun{rig: newRig(t, autograd.Config{Workers: 2})}
				one.x = []*tensor.Tensor{one.tensor(x, tensor.Float64)}
				one.cut = func(s *autograd.Scope, x []value) (q, k, v value) { return cut(s, x[0]) }
				got, grads := one.run()
				one.release()

				apart := &attentionRun{rig: newRig(t, autograd.Config{})}
				apart.cut = func(s *autograd.Scope, x []value) (q, k, v value) {
					q, _, _ = cut(s, x[0])
					_, k, _ = cut(s, x[1])
					_, _, v = cut(s, x[2])
					return q, k, v
				}
				for range 3 {
					apart.x = append(apart.x, apart.tensor(x, tensor.Float64))
				}
				want, parts := apart.run()
				apart.release()
				require.Equal(t, want, got)
				sum := each(x.shape, func(i []int) float64 { return parts[0].at(i...) + parts[1].at(i...) + parts[2].at(i...) })
				require.NoError(t, near(sum, grads[0], 1e-12, 1e-12))
			})
		}
	}
}

// The peak of forward and backward is a straight line in the number of steps: no term is quadratic.
func TestAttentionIsLinearInTime(t *testing.T) {
	for _, dropped := range []float64{0, 0.1} {
		peak := func(steps int) int64 {
			a := &attentionRun{rig: newRig(t, autograd.Config{}), cut: three}
			defer a.release()
			for i := range uint64(3) {
				a.x = append(a.x, a.tensor(floats(1, steps, 2, 4).values(i), tensor.Float32))
			}
			a.cfg = ops.AttentionConfig{Causal: true, Dropout: dropped}
			a.dev.ResetPeak()
			a.run()
			return a.dev.Stats().Peak
		}
		p1, p2, p4 := peak(256), peak(512), peak(1024)
		require.Equal(t, 2*(p2-p1), p4-p2)
		row := int64(2 * 4 * 4) // of q, k, v, out or a gradient
		// q, k, v, out, the gradient of out and the pass's copy of it, three gradients; log-sum-exp and delta
		require.Equal(t, 256*(9*row+2*row/4), p2-p1)
		require.Less(t, p4, int64(2*1024*1024*4), "less than one matrix of weights")
	}
}

// Padding that holds NaN shows nowhere, and has no gradient; queries that see nothing give 0.
func TestAttentionIgnoresWhatIsHidden(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	q, k, v := floats(1, 3, 1, 2).values(1), floats(1, 4, 1, 2).values(2), floats(1, 4, 1, 2).values(3)
	for i := 4; i < 8; i++ { // keys 2 and 3
		k.data[i], v.data[i] = nan, inf
	}
	q.data[2] = nan // query 1
	run := func(mask array, dt tensor.DType) (out array, grads [3]array) {
		r.ok(func(s *autograd.Scope) {
			leaves := make([]value, 4)
			for i, a := range []array{q, k, v, mask} {
				d := tensor.Float32
				if i == 3 {
					d = dt
				}
				x := r.tensor(a, d)
				s.OnClose(x.Release)
				if leaves[i] = s.Input(x); i < 3 {
					leaves[i].RequireGrad()
				}
			}
			y := ops.Attention(s, leaves[0], leaves[1], leaves[2], ops.AttentionConfig{Mask: leaves[3]})
			g := r.tensor(array{[]int{1, 3, 1, 2}, []float64{1, 2, nan, inf, 3, 4}}, tensor.Float32)
			s.OnClose(g.Release)
			y.Backward(s, autograd.WithGrad(g))
			out = read(y.Tensor())
			for i := range grads {
				grads[i] = read(leaves[i].Grad())
			}
		})
		return out, grads
	}
	out, grads := run(array{[]int{3, 4}, []float64{1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}}, tensor.Bool)
	added, gradsAdded := run(array{[]int{3, 4}, []float64{0, 0, -inf, -inf, -inf, -inf, -inf, -inf, 0, -inf, -inf, -inf}}, tensor.Float32)
	require.Equal(t, out, added)
	require.Equal(t, grads, gradsAdded)
	require.Equal(t, []float64{0, 0}, out.data[2:4])
	require.NoError(t, near(array{[]int{2}, v.data[:2]}, array{[]int{2}, out.data[4:]}, 1e-6, 0), "query 2 sees key 0 only")
	for i, g := range append([]array{out}, grads[:]...) {
		for _, x := range g.data {
			require.False(t, x-x != 0, "%d: %v", i, g)
		}
	}
	require.Equal(t, []float64{0, 0}, grads[0].data[2:4])
	require.Equal(t, make([]float64, 4), grads[1].data[4:])
	require.Equal(t, make([]float64, 4), grads[2].data[4:])
}

// NaN and Inf among what is seen go through; scores of Inf give NaN, as Inf - Inf does.
func TestAttentionNaNAndInf(t *testing.T) {
	call := attention(ops.AttentionConfig{Causal: true, Scale: 1})
	x := func(d ...float64) array { return array{[]int{1, 2, 1, 1}, d} }
	for _, dt := range floatTypes {
		checkSpecial(t, dt, call, []array{x(0, 0), x(1, 1), x(nan, 1)}, []float64{nan, nan}, [][]float64{{nan, nan}, {nan, nan}, {1.5, 0.5}})
		checkSpecial(t, dt, call, []array{x(0, 0), x(1, 1), x(1, inf)}, []float64{1, inf}, [][]float64{{0, nan}, {nan, nan}, {1.5, 0.5}})
		checkSpecial(t, dt, call, []array{x(1, 1), x(0, inf), x(1, 2)}, []float64{1, nan}, [][]float64{{0, nan}, {nan, nan}, {nan, nan}})
		checkSpecial(t, dt, call, []array{x(1, nan), x(0, 1), x(1, 2)}, []float64{1, nan}, [][]float64{{0, nan}, {nan, nan}, {nan, nan}})
		checkSpecial(t, dt, call, []array{x(1, 1), x(0, -inf), x(1, 2)}, []float64{1, 1}, [][]float64{{0, nan}, {0, 0}, {2, 0}})
	}
}

// In evaluation nothing is dropped or drawn.
func TestAttentionDropoutInEvaluation(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(1, 3, 1, 2).values(1), tensor.Float32)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x)
		plain := ops.Attention(s, v, v, v, ops.AttentionConfig{})
		eval := ops.Attention(s.Eval(), v, v, v, ops.AttentionConfig{Dropout: 0.5})
		require.Equal(t, read(plain.Tensor()), read(eval.Tensor()))
		require.Zero(t, r.sess.Rand().Offset)
		ops.Attention(s, v, v, v, ops.AttentionConfig{Dropout: 0.5})
		require.EqualValues(t, 12, r.sess.Rand().Offset, "9 words, up to the next block of 4")
	})
}

func TestAttentionErrors(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	type cfg = ops.AttentionConfig
	x := map[string]*tensor.Tensor{}
	in := func(s *autograd.Scope, dt tensor.DType, shape ...int) value {
		key := tensor.Of(dt, shape...).String()
		if x[key] == nil {
			var err error
			x[key], err = tensor.Zeros(r.dev, 0, site, tensor.Of(dt, shape...))
			require.NoError(t, err)
		}
		return s.Input(x[key])
	}
	const f32, f64, b8, i64 = tensor.Float32, tensor.Float64, tensor.Bool, tensor.Int64
	attend := func(s *autograd.Scope, steps int, c cfg) {
		ops.Attention(s, in(s, f32, 2, 3, 4, 5), in(s, f32, 2, steps, 2, 5), in(s, f32, 2, steps, 2, 6), c)
	}
	masked := func(s *autograd.Scope, dt tensor.DType, shape ...int) {
		attend(s, 3, cfg{Mask: in(s, dt, shape...)})
	}
	const wantShapes = "want q [B T Hq D], k [B S Hkv D] and v [B S Hkv Dv]"
	for _, c := range []struct {
		text string
		call func(s *autograd.Scope)
	}{
		{wantShapes, func(s *autograd.Scope) {
			ops.Attention(s, in(s, f32, 3, 4, 5), in(s, f32, 3, 4, 5), in(s, f32, 3, 4, 5), cfg{})
		}},
		{wantShapes, func(s *autograd.Scope) {
			ops.Attention(s, in(s, f32, 2, 3, 4, 5), in(s, f32, 2, 3, 4, 6), in(s, f32, 2, 3, 4, 5), cfg{})
		}},
		{wantShapes, func(s *autograd.Scope) {
			ops.Attention(s, in(s, f32, 2, 3, 4, 5), in(s, f32, 2, 3, 4, 5), in(s, f32, 2, 2, 4, 5), cfg{})
		}},
		{"4 heads of q and 3 of k: want a multiple", func(s *autograd.Scope) {
			ops.Attention(s, in(s, f32, 2, 3, 4, 5), in(s, f32, 2, 3, 3, 5), in(s, f32, 2, 3, 3, 5), cfg{})
		}},
		{"want equal dtypes", func(s *autograd.Scope) {
			ops.Attention(s, in(s, f32, 2, 3, 4, 5), in(s, f64, 2, 3, 4, 5), in(s, f32, 2, 3, 4, 5), cfg{})
		}},
		{"causal attention of 3 queries to 7 keys: want AlignTopLeft", func(s *autograd.Scope) { attend(s, 7, cfg{Causal: true}) }},
		{"Align without Causal", func(s *autograd.Scope) { attend(s, 7, cfg{Align: ops.AlignBottomRight}) }},
		{"unknown Align 3", func(s *autograd.Scope) { attend(s, 7, cfg{Causal: true, Align: 3}) }},
		{"want a finite scale, got NaN", func(s *autograd.Scope) { attend(s, 3, cfg{Scale: nan}) }},
		{"want a dropout probability from 0 to 1, got 1.5", func(s *autograd.Scope) { attend(s, 3, cfg{Dropout: 1.5}) }},
		{"want a bool mask, true for what takes part, or a float32 one to add; got float64", func(s *autograd.Scope) { masked(s, f64, 3, 3) }},
		{"got int64", func(s *autograd.Scope) { masked(s, i64, 3, 3) }},
		{"want a mask that broadcasts to [B Hq T S], here [2 4 3 3]", func(s *autograd.Scope) { masked(s, b8, 2, 3) }},
		{"want a mask that broadcasts to [B Hq T S]", func(s *autograd.Scope) { masked(s, b8, 1, 2, 4, 3, 3) }},

		{"rms_norm[float32[]]: want x [... C]", func(s *autograd.Scope) { ops.RMSNorm(s, in(s, f32), nil, 1e-5) }},
		{"want weight [5]", func(s *autograd.Scope) { ops.RMSNorm(s, in(s, f32, 2, 5), in(s, f32, 4), 1e-5) }},
		{"want weight [5]", func(s *autograd.Scope) { ops.RMSNorm(s, in(s, f32, 2, 5), in(s, f32, 1, 5), 1e-5) }},
		{"want eps of 0 or more, got -1", func(s *autograd.Scope) { ops.RMSNorm(s, in(s, f32, 2, 5), nil, -1) }},
		{"want equal dtypes", func(s *autograd.Scope) { ops.RMSNorm(s, in(s, f32, 2, 5), in(s, f64, 5), 1e-5) }},
		{"rope[float32[2 3 4 5]]: want x [B T H D] with an even D", func(s *autograd.Scope) { ops.RoPE(s, in(s, f32, 2, 3, 4, 5), ops.RoPEConfig{}) }},
		{"want a position of 0 or more for the first step, got -1", func(s *autograd.Scope) { ops.RoPE(s, in(s, f32, 2, 3, 4, 6), ops.RoPEConfig{Offset: -1}) }},
		{"want a base above 0, got -2", func(s *autograd.Scope) { ops.RoPE(s, in(s, f32, 2, 3, 4, 6), ops.RoPEConfig{Base: -2}) }},
		{"want a float dtype, got int64", func(s *autograd.Scope) { ops.RoPE(s, in(s, i64, 2, 3, 4, 6), ops.RoPEConfig{}) }},
	} {
		t.Run(c.text, func(t *testing.T) {
			require.Error(t, r.step(c.call)) // which makes the inputs
			r.fails(c.call, c.text)
		})
	}
	for _, x := range x {
		x.Release()
	}
}

// What attention to a cache gives is the last rows of what it gives for the whole sequence, turned by their positions.
func TestAttentionToACache(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(1, 9, 2, 4).values(1), tensor.Float64)
	defer x.Release()
	r.ok(func(s *autograd.Scope) {
		v := s.Input(x)
		k := ops.RoPE(s, v, ops.RoPEConfig{})
		all := ops.Attention(s, k, k, v, ops.AttentionConfig{Causal: true})
		q := ops.RoPE(s, ops.Slice(s, v, 1, 6, 9), ops.RoPEConfig{Offset: 6})
		last := ops.Attention(s, q, k, v, ops.AttentionConfig{Causal: true, Align: ops.AlignBottomRight})
		require.NoError(t, near(read(ops.Slice(s, all, 1, 6, 9).Tensor()), read(last.Tensor()), 1e-13, 1e-13))
	})
}

// Products of turned queries and keys depend on the distance of their positions alone.
func TestRoPEIsRelative(t *testing.T) {
	r := newRig(t, autograd.Config{})
	defer r.close()
	x := r.tensor(floats(1, 1, 1, 8).values(1), tensor.Float64)
	y := r.tensor(floats(1, 1, 1, 8).values(2), tensor.Float64)
	defer x.Release()
	defer y.Release()
	for _, interleaved := range []bool{false, true} {
		r.ok(func(s *autograd.Scope) {
			product := func(i, j int) (sum float64) {
				a := read(ops.RoPE(s, s.Input(x), ops.RoPEConfig{Offset: i, Interleaved: interleaved}).Tensor())
				b := read(ops.RoPE(s, s.Input(y), ops.RoPEConfig{Offset: j, Interleaved: interleaved}).Tensor())
				for i := range a.data {
					sum += a.data[i] * b.data[i]
				}
				return sum
			}
			require.InDelta(t, product(3, 1), product(1003, 1001), 1e-10)
			require.NotEqual(t, product(3, 1), product(3, 2))
		})
	}
}

// Selective recomputation keeps what is dear.
func TestDearOps(t *testing.T) {
	var dear []string
	for _, e := range ops.Catalog() {
		if r := e.Op.Rule(); r.Dear && !slices.Contains(dear, r.Name) {
			dear = append(dear, r.Name)
		}
	}
	for _, name := range []string{"linear", "matmul", "scaled_dot_product_attention"} {
		require.Contains(t, dear, name)
	}
}
