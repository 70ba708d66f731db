package checkpoint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// net is two layers with dropout between them, and how often it ran.
type net struct {
	A, B *nn.Linear
	runs int
}

func newNet(r *rig) *net { return &net{A: r.linear(4, 8), B: r.linear(8, 4)} }

func (n *net) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	n.runs++
	h := ops.GELU(s, n.A.Forward(s, x))
	return n.B.Forward(s, nn.Dropout{P: 0.3}.Forward(s, h))
}

func loss(s *autograd.Scope, y *autograd.Value) *autograd.Value { return ops.Sum(s, ops.Mul(s, y, y)) }

// both gives the gradients of m by the plain run and by f, with the random stream at the same place.
func both(r *rig, m any, plain, f func(s *autograd.Scope)) (want, got [][]float32) {
	r.t.Helper()
	rand := r.sess.Rand()
	r.ok(plain)
	want = grads(r.t, m)
	after := r.sess.Rand()
	r.sess.SetRand(rand)
	r.ok(f)
	require.Equal(r.t, after, r.sess.Rand(), "the random stream stands where the plain run leaves it")
	return want, grads(r.t, m)
}

// C1, C4: an input that needs no gradient, dropout within.
func TestFirstBlockTrains(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	want, got := both(r, n,
		func(s *autograd.Scope) { loss(s, n.Forward(s, s.Input(x))).Backward(s) },
		func(s *autograd.Scope) {
			y := checkpoint.Run1(s, n.Forward, s.Input(x))
			require.True(t, y.RequiresGrad())
			loss(s, y).Backward(s)
		})
	require.Equal(t, want, got)
	require.NotNil(t, got[0])
	require.Equal(t, 3, n.runs)
}

// Frozen layers inside, and below.
func TestFrozen(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	for _, frozen := range []*nn.Linear{n.A, n.B} {
		nn.SetFrozen(frozen, true)
		want, got := both(r, n,
			func(s *autograd.Scope) { loss(s, n.Forward(s, s.Input(x))).Backward(s) },
			func(s *autograd.Scope) { loss(s, checkpoint.Run1(s, n.Forward, s.Input(x))).Backward(s) })
		require.Equal(t, want, got)
		nn.SetFrozen(frozen, false)
	}
	nn.SetFrozen(n, true)
	defer nn.SetFrozen(n, false)
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		v := s.Input(x)
		y := checkpoint.Run1(s, n.Forward, v)
		require.False(t, y.RequiresGrad())
		s.Free(y, v)
		require.Equal(t, live, r.dev.Stats().Live, "nothing is kept where nothing is wanted")
	})
}

// twoInTwoOut takes a, an integer index and a parameter, and gives two values and its input.
func twoInTwoOut(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value {
	a, ids, w := xs[0], xs[1], xs[2]
	h := ops.Mul(s, ops.Tanh(s, a), ops.Embedding(s, w, ids)) // [3 4]
	return []*autograd.Value{ops.Exp(s, h), ops.Sum(s, h), a}
}

func TestSeveralInputsAndOutputs(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 5), r.uniform(3, 4)
	ids := r.ids(5, 3)
	defer x.Release()
	defer ids.Release()
	sum := func(ys []*autograd.Value, s *autograd.Scope) *autograd.Value {
		return ops.Add(s, ops.Add(s, loss(s, ys[0]), ys[1]), loss(s, ys[2]))
	}
	run := func(f checkpoint.Func) func(s *autograd.Scope) {
		return func(s *autograd.Scope) {
			a := ops.Sin(s, s.Input(x).RequireGrad())
			sum(f(s, []*autograd.Value{a, s.Input(ids), l.Weight.Value()}), s).Backward(s)
		}
	}
	want, got := both(r, l, run(twoInTwoOut), run(func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value {
		return checkpoint.Run(s, twoInTwoOut, xs)
	}))
	require.Equal(t, want, got)
	require.NotNil(t, got[0])

	// The gradient of an input that is a leaf, by Backward and by Grad.
	leaf := func(f checkpoint.Func) (g, g2 []float32) {
		r.ok(func(s *autograd.Scope) {
			a := s.Input(x).RequireGrad()
			y := sum(f(s, []*autograd.Value{a, s.Input(ids), l.Weight.Value()}), s)
			g2 = values(t, autograd.Grad(s, y, []*autograd.Value{a}, autograd.RetainGraph())[0].Tensor())
			y.Backward(s)
			g = values(t, a.Grad())
		})
		grads(t, l)
		return g, g2
	}
	wantG, wantG2 := leaf(twoInTwoOut)
	gotG, gotG2 := leaf(func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value {
		return checkpoint.Run(s, twoInTwoOut, xs)
	})
	require.Equal(t, wantG, gotG)
	require.Equal(t, wantG2, gotG2)
	require.Equal(t, gotG, gotG2)
}

// C8: each Backward over a retained graph recomputes, and lets go of what it has recomputed.
func TestRetainedGraph(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	twice := func(f nn.Forward) func(s *autograd.Scope) {
		return func(s *autograd.Scope) {
			y := loss(s, f(s, s.Input(x)))
			live := r.dev.Stats().Live
			y.Backward(s, autograd.RetainGraph())
			require.Equal(t, live+gradBytes(n), r.dev.Stats().Live)
			y.Backward(s, autograd.RetainGraph())
			require.Equal(t, live+gradBytes(n), r.dev.Stats().Live)
			y.Backward(s)
		}
	}
	want, got := both(r, n, twice(n.Forward), func(s *autograd.Scope) {
		n.runs = 0
		twice(func(s *autograd.Scope, x *autograd.Value) *autograd.Value { return checkpoint.Run1(s, n.Forward, x) })(s)
	})
	require.Equal(t, want, got)
	require.Equal(t, 4, n.runs)
	r.fails(func(s *autograd.Scope) {
		y := loss(s, checkpoint.Run1(s, n.Forward, s.Input(x)))
		y.Backward(s)
		y.Backward(s)
	}, "second time")
}

func gradBytes(m any) (n int64) {
	for _, p := range nn.Params(m) {
		if p.Grad() != nil {
			n += p.Spec().Bytes()
		}
	}
	return n
}

// C2: several readers of one tensor, in one pass and in two, recompute once for each pass.
func TestRunsOncePerPass(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	runs := 0
	f := func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value {
		runs++
		h := ops.Tanh(s, l.Forward(s, xs[0]))
		return []*autograd.Value{ops.Mul(s, h, h), ops.Exp(s, ops.Mul(s, h, xs[0]))}
	}
	for _, passes := range []int{1, 2} {
		both := func(f checkpoint.Func) [][]float32 {
			r.ok(func(s *autograd.Scope) {
				ys := f(s, []*autograd.Value{s.Input(x)})
				a, b := ops.Sum(s, ys[0]), ops.Sum(s, ys[1])
				if passes == 1 {
					ops.Add(s, a, b).Backward(s)
					return
				}
				live := r.dev.Stats().Live
				a.Backward(s, autograd.RetainGraph())
				require.Equal(t, live+gradBytes(l), r.dev.Stats().Live, "what this pass has not read went with it")
				b.Backward(s)
			})
			return grads(t, l)
		}
		want := both(f)
		runs = 0
		got := both(func(s *autograd.Scope, xs []*autograd.Value) []*autograd.Value { return checkpoint.Run(s, f, xs) })
		require.Equal(t, want, got)
		require.Equal(t, 1+passes, runs)
	}
}

// C3: the second run stops at the last tensor that is needed.
func TestEarlyStop(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	for _, whole := range []bool{false, true} {
		reached := 0
		r.ok(func(s *autograd.Scope) {
			var opts []checkpoint.Option
			if whole {
				opts = append(opts, checkpoint.NoEarlyStop())
			}
			y := checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
				y := ops.AddScalar(s, n.Forward(s, x), 1) // saves nothing after the last linear's input
				reached++
				return y
			}, s.Input(x), opts...)
			loss(s, y).Backward(s)
		})
		grads(t, n)
		require.Equal(t, map[bool]int{false: 1, true: 2}[whole], reached)
	}
}

// Backward and Grad inside the region.
func TestBackwardInside(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, m, x := newNet(r), newNet(r), r.uniform(3, 4)
	defer x.Release()
	f := func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		h := n.Forward(s, x)
		aux := loss(s, h)
		g := autograd.Grad(s, aux, []*autograd.Value{n.B.Weight.Value()}, autograd.RetainGraph())[0]
		aux.Backward(s, autograd.RetainGraph())
		return m.Forward(s, ops.Mul(s, h, ops.Sum(s, g)))
	}
	all := []any{n, m}
	nested := func(s *autograd.Scope, x *autograd.Value) *autograd.Value { return checkpoint.Run1(s, f, x) }
	for _, g := range []nn.Forward{nested, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return checkpoint.Run1(s, nested, x)
	}} {
		want, got := both(r, all,
			func(s *autograd.Scope) { loss(s, f(s, s.Input(x))).Backward(s) },
			func(s *autograd.Scope) { loss(s, g(s, s.Input(x))).Backward(s) })
		require.Equal(t, want, got)
	}
}

// A value that is cut off from its history within the region, and one that no gradient reaches.
func TestDetachInside(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, m, x := newNet(r), newNet(r), r.uniform(3, 4)
	defer x.Release()
	f := func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		h := n.Forward(s, x)
		m.Forward(s, h) // leads nowhere
		return ops.Mul(s, h, m.Forward(s, h.Detach(s)))
	}
	want, got := both(r, []any{n, m},
		func(s *autograd.Scope) { loss(s, f(s, s.Input(x))).Backward(s) },
		func(s *autograd.Scope) { loss(s, checkpoint.Run1(s, f, s.Input(x))).Backward(s) })
	require.Equal(t, want, got)
	require.NotNil(t, got[len(got)-1])
}

// C9
func TestNoGradIsAPlainCall(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	var a, b []float32
	var hash [2]uint64
	rand := r.sess.Rand()
	for i, f := range []nn.Forward{n.Forward, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return checkpoint.Run1(s, n.Forward, x, checkpoint.With(checkpoint.DearOnly))
	}} {
		r.sess.SetRand(rand)
		r.dev.ResetPeak()
		r.ok(func(s *autograd.Scope) {
			in := s.Input(x)
			y := s.NoGrad().Do("", func(s *autograd.Scope) *autograd.Value { return f(s, in) })
			a, b = b, values(t, y.Tensor())
		})
		hash[i] = r.dev.Stats().Hash
	}
	require.Equal(t, a, b)
	require.Equal(t, hash[0], hash[1])
}

// Modes of the region hold in its second run, wherever Backward is called (C4).
func TestModes(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	f := func(eval bool, run func(*autograd.Scope, *autograd.Value) *autograd.Value) func(*autograd.Scope) {
		return func(s *autograd.Scope) {
			in := s
			if eval {
				in = s.Eval()
			}
			y := loss(s, run(in, s.Input(x)))
			if eval {
				y.Backward(s.NoGrad())
			} else {
				y.Backward(s.Eval())
			}
		}
	}
	region := func(s *autograd.Scope, x *autograd.Value) *autograd.Value { return checkpoint.Run1(s, n.Forward, x) }
	for _, eval := range []bool{false, true} {
		want, got := both(r, n, f(eval, n.Forward), f(eval, region))
		require.Equal(t, want, got)
	}
}

// A saver set inside the region has what is saved there; the region does not see it.
func TestSaverInside(t *testing.T) {
	r := newRig(t)
	defer r.close()
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, host.Close()) }()
	n, m, x := newNet(r), newNet(r), r.uniform(3, 4)
	defer x.Release()
	f := func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		return m.Forward(s.WithSaver(&hostSaver{host}), n.Forward(s, x))
	}
	want, got := both(r, []any{n, m},
		func(s *autograd.Scope) { loss(s, f(s, s.Input(x))).Backward(s) },
		func(s *autograd.Scope) {
			y := checkpoint.Run1(s, f, s.Input(x))
			require.NotZero(t, host.Stats().Live)
			loss(s, y).Backward(s)
		})
	require.Equal(t, want, got)
	require.Zero(t, host.Stats().Live)
	// A saver around the region holds the region's input.
	want, got = both(r, []any{n, m},
		func(s *autograd.Scope) { loss(s, m.Forward(s, n.Forward(s, s.Input(x)))).Backward(s) },
		func(s *autograd.Scope) {
			h := n.Forward(s, s.Input(x))
			y := checkpoint.Run1(s.WithSaver(&hostSaver{host}), m.Forward, h)
			require.Equal(t, h.Spec().Bytes(), host.Stats().Live)
			loss(s, y).Backward(s)
		})
	require.Equal(t, want, got)
	require.Zero(t, host.Stats().Live)
}

// BatchNorm's statistics move once in a step (C4), in segments too.
func TestSequential(t *testing.T) {
	train := func(segments int) ([]float64, [][]float32) {
		r := newRig(t)
		defer r.close()
		k := convTask(r, func(q nn.Sequential) nn.Module {
			if segments == 0 {
				return q
			}
			m, err := checkpoint.Sequential(q, segments)
			require.NoError(t, err)
			require.Equal(t, names(q), names(m))
			return m
		})
		defer k.close()
		return k.train(r, 50)
	}
	losses, params := train(0)
	for _, n := range []int{1, 2, 3, 4, 10} {
		gotLosses, gotParams := train(n)
		require.Equal(t, losses, gotLosses)
		require.Equal(t, params, gotParams)
	}
	for _, n := range []int{-1, 0, 11} {
		_, err := checkpoint.Sequential(make([]nn.Module, 10), n)
		require.ErrorContains(t, err, fmt.Sprintf("%d segments of 10 modules: want 1 to 10", n))
	}
	_, err := checkpoint.Sequential([]nn.Module{nn.ReLU{}, nil}, 1)
	require.ErrorContains(t, err, "module 1 of 2 is nil")
}

// 10 modules in 4 segments: the remainder is spread, the last segment is kept, and 18 modules run in all.
func TestSequentialSpreads(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	var ran []int
	var list []nn.Module
	for i := range 10 {
		list = append(list, module(func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			ran = append(ran, i)
			return ops.Tanh(s, l.Forward(s, x)) // saves its output, so that the second run comes to its end
		}))
	}
	q, err := checkpoint.Sequential(list, 4)
	require.NoError(t, err)
	r.ok(func(s *autograd.Scope) { loss(s, q.Forward(s, s.Input(x))).Backward(s) })
	grads(t, l)
	require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 6, 7, 3, 4, 5, 0, 1, 2}, ran)
}

func TestWrapKeepsNames(t *testing.T) {
	r := newRig(t)
	defer r.close()
	n, x := newNet(r), r.uniform(3, 4)
	defer x.Release()
	w := nn.Sequential{checkpoint.Wrap(n), checkpoint.Wrap(checkpoint.Wrap(r.linear(4, 4)), checkpoint.With(checkpoint.DearOnly))}
	require.Equal(t, []string{"0.a.weight", "0.a.bias", "0.b.weight", "0.b.bias", "1.weight", "1.bias"}, names(w))
	want, got := both(r, w,
		func(s *autograd.Scope) {
			loss(s, w[1].Forward(s, n.Forward(s, s.Input(x)))).Backward(s)
		},
		func(s *autograd.Scope) { loss(s, w.Forward(s, s.Input(x))).Backward(s) })
	require.Equal(t, want, got)
}

// C5
func TestDifferentRuns(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	count := 0
	var cache []*tensor.Tensor
	defer func() {
		for _, c := range cache {
			c.Release()
		}
	}()
	cases := []struct {
		name  string
		f     nn.Forward
		opts  []checkpoint.Option
		texts []string
	}{
		{"counter in a value", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			count++
			return ops.Tanh(s.Named("late"), ops.MulScalar(s, l.Forward(s, x), float64(count)))
		}, nil, []string{"other values than the forward pass, first at saved tensor 1, float32[12] of tanh in late", "no counters"}},
		{"counter in a branch", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			if count++; count%2 == 1 {
				x = ops.Tanh(s.Named("odd"), l.Forward(s, x))
			}
			return ops.Exp(s, l.Forward(s, x))
		}, nil, []string{"differs from the forward pass at saved tensor", "tanh in odd"}},
		{"fewer", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			y := ops.Exp(s, x)
			if count++; count%2 == 1 {
				y = l.Forward(s, y)
				return ops.Exp(s, y)
			}
			return y
		}, nil, []string{"saved"}},
		{"more", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			y := ops.Exp(s, l.Forward(s, x))
			if count++; count%2 == 0 {
				y = ops.Exp(s, y)
			}
			return y
		}, []checkpoint.Option{checkpoint.NoEarlyStop()}, []string{"saves more than the 2 tensors of the forward pass, here float32[12] of exp"}},
		{"a cache that grows", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			k := l.Forward(s, x)
			cache = append(cache, s.Keep(k))
			keys := []*autograd.Value{k}
			for _, c := range cache[:len(cache)-1] {
				keys = append(keys, s.Input(c))
			}
			return ops.Exp(s, ops.Cat(s, 0, keys...))
		}, nil, []string{"differs from the forward pass at saved tensor 1: it was float32[12] of exp, and is float32[24] of exp"}},
		{"random numbers of its own", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			return ops.Tanh(s, ops.MulScalar(s, l.Forward(s, x), rand.Float64()))
		}, []checkpoint.Option{checkpoint.WithCheck(checkpoint.CheckValues)}, []string{"other values", "saved tensor 1"}},
		{"other ops", func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			if count++; count%2 == 1 {
				return ops.Tanh(s, ops.AddScalar(s, l.Forward(s, x), 1))
			}
			return ops.Tanh(s, ops.MulScalar(s, l.Forward(s, x), 1))
		}, []checkpoint.Option{checkpoint.With(checkpoint.DearOnly)}, []string{"differs from the forward pass at op 1: it was add_scalar, and is mul_scalar"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r.t, count = t, 0
			err := r.step(func(s *autograd.Scope) {
				loss(s, checkpoint.Run1(s, c.f, s.Input(x), c.opts...)).Backward(s)
			})
			for _, text := range append(c.texts, "checkpoint: ") {
				require.ErrorContains(t, err, text)
			}
			require.Nil(t, l.Weight.Grad())
		})
	}
	t.Run("metadata only", func(t *testing.T) {
		count = 0
		r.ok(func(s *autograd.Scope) {
			loss(s, checkpoint.Run1(s, cases[0].f, s.Input(x), checkpoint.WithCheck(checkpoint.CheckMetadata))).Backward(s)
		})
		grads(t, l)
	})
	r.fails(func(s *autograd.Scope) { checkpoint.Run1(s, l.Forward, s.Input(x), checkpoint.WithCheck(9)) }, "check 9: want")
}

// nn's cache of keys and values does not grow in a second run: it refuses.
func TestCacheInRegion(t *testing.T) {
	r := newRig(t)
	defer r.close()
	m, err := nn.NewGPT(r.sess, nn.GPTConfig{Vocab: 4, Context: 6, Dim: 4, Heads: 1, Layers: 1})
	require.NoError(t, err)
	c, err := m.NewCache(1, 6)
	require.NoError(t, err)
	defer c.Close()
	l, ids := r.linear(4, 4), r.ids(4, 1, 2)
	defer ids.Release()
	r.fails(func(s *autograd.Scope) {
		y := checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			return l.Forward(s, m.Next(s, x, c))
		}, s.Input(ids))
		loss(s, y).Backward(s)
	}, "next[int64[1 2]]: called in a recomputation, where the cache would grow a second time")
	require.Zero(t, c.Len())
}

// One element of many: the hash of all values sees it, a sample need not.
func TestCheckValuesSeesOneElement(t *testing.T) {
	r := newRig(t)
	defer r.close()
	x, once := r.uniform(100, 100), r.uniform(100, 100)
	defer x.Release()
	defer once.Release()
	l := r.linear(100, 100)
	v := tensor.Data[float32](once)
	for _, check := range []checkpoint.Check{checkpoint.CheckValues, checkpoint.CheckMetadata} {
		err := r.step(func(s *autograd.Scope) {
			y := checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
				v[777]++
				return ops.Mul(s.Named("here"), l.Forward(s, x), s.Input(once))
			}, s.Input(x), checkpoint.WithCheck(check))
			loss(s, y).Backward(s)
		})
		if check == checkpoint.CheckMetadata {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "other values than the forward pass, first at saved tensor 1, float32[10000] of mul in here")
	}
	grads(t, l)
}

// C6, and writes after the region.
func TestModifiedInput(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	inside := func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		y := l.Forward(s, ops.Exp(s, x))
		return ops.Add(s, y, ops.AddInPlace(s, x, y))
	}
	r.fails(func(s *autograd.Scope) {
		h := ops.MulScalar(s, l.Forward(s, s.Input(x)), 2)
		loss(s, checkpoint.Run1(s, inside, h)).Backward(s)
	}, "the function modified its input 0 in place", "checkpoint[float32[3 4]]", "use the op that makes a new value")
	r.fails(func(s *autograd.Scope) { // inside an outer region
		h := ops.MulScalar(s, l.Forward(s, s.Input(x)), 2)
		loss(s, checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			return checkpoint.Run1(s, inside, ops.MulScalar(s, x, 2))
		}, h)).Backward(s)
	}, "the function modified its input 0 in place")
	r.fails(func(s *autograd.Scope) { // after it
		h := ops.MulScalar(s, l.Forward(s, s.Input(x)), 2)
		y := checkpoint.Run1(s, l.Forward, h)
		loss(s, ops.AddInPlace(s, h, y)).Backward(s)
	}, "input 0: float32[3 4]", "modified by an inplace operation", "expected version 0")
	r.fails(func(s *autograd.Scope) { // behind the engine's back
		v := s.Input(x)
		y := loss(s, checkpoint.Run1(s, l.Forward, v))
		tensor.Data[float32](x)[0]++
		y.Backward(s)
	}, "input 0, float32[3 4], has other values than in the forward pass")
	r.fails(func(s *autograd.Scope) { checkpoint.Run(s, nil, []*autograd.Value{nil}) }, "input 0 is nil")
}

// A value that the function captured must still be there.
func TestCapturedValueGone(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	r.fails(func(s *autograd.Scope) {
		y := s.Do("inner", func(s *autograd.Scope) *autograd.Value {
			h := ops.Exp(s, s.Input(x))
			return checkpoint.Run1(s, func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
				return ops.Exp(s, ops.Add(s, l.Forward(s, x), h))
			}, s.Input(x))
		})
		loss(s, y).Backward(s)
	}, "made by exp in inner was released", "pass it in")
}

// A kept value that is then written to in place is kept as it was.
func TestInPlaceOnKeptOutput(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	f := func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
		h := l.Forward(s, x)
		h = ops.AddInPlace(s, h, x)
		return ops.Exp(s, ops.Sin(s, h))
	}
	want, got := both(r, l,
		func(s *autograd.Scope) { loss(s, f(s, s.Input(x))).Backward(s) },
		func(s *autograd.Scope) {
			y := loss(s, checkpoint.Run1(s, f, s.Input(x), checkpoint.With(checkpoint.DearOnly)))
			y.Backward(s, autograd.RetainGraph())
			for _, p := range nn.Params(l) {
				p.ZeroGrad()
			}
			y.Backward(s)
		})
	require.Equal(t, want, got)
}

// A policy hears who made what is read, but not of a storage that an in-place operation has rewritten.
func TestPolicyIsToldTheMaker(t *testing.T) {
	r := newRig(t)
	defer r.close()
	l, x := r.linear(4, 4), r.uniform(3, 4)
	defer x.Release()
	read := map[string]string{}
	p := func(q checkpoint.Tensor) checkpoint.Action {
		if q.Reader.Op != "" {
			read[q.Reader.Op] = q.Maker.Op
			require.Equal(t, q.Maker.Op == "", q.Rule == nil)
			require.EqualValues(t, 48, q.Bytes)
			require.Equal(t, "in", q.Reader.Scope)
		}
		return checkpoint.Recompute
	}
	r.ok(func(s *autograd.Scope) {
		y := checkpoint.Run1(s.Named("in"), func(s *autograd.Scope, x *autograd.Value) *autograd.Value {
			h := ops.Sin(s, l.Forward(s, x))
			return ops.Exp(s, ops.Cos(s, ops.AddInPlace(s, h, x)))
		}, s.Input(x), checkpoint.With(p))
		loss(s, y).Backward(s)
	})
	require.Equal(t, map[string]string{"linear": "", "sin": "linear", "cos": "", "exp": "exp"}, read)
}

// countingSaver counts what it is given.
type countingSaver struct {
	hostSaver
	packs int
}

func (c *countingSaver) Pack(t *tensor.Tensor, at memory.Site) (any, error) {
	c.packs++
	return c.hostSaver.Pack(t, at)
}

// What a region has offloaded in its first run is not offloaded again when an outer region runs it once more.
func TestOffloadsOnce(t *testing.T) {
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 30})
	require.NoError(t, err)
	r := newRig(t)
	defer r.close()
	k := gptTask(r, 4)
	defer k.close()
	sv := &countingSaver{hostSaver: hostSaver{host}}
	k.chain(checkpoint.Chain(deep, checkpoint.With(checkpoint.DearTo), checkpoint.OffloadTo(sv)))
	r.ok(func(s *autograd.Scope) {
		y := k.loss(s)
		packs := sv.packs
		require.NotZero(t, packs)
		y.Backward(s)
		require.Equal(t, packs, sv.packs)
	})
	require.Zero(t, host.Stats().Live)
	require.NoError(t, host.Close())
	r.fails(func(s *autograd.Scope) {
		k.chain(checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearTo)))
		k.loss(s)
	}, "the policy offloads", "give a saver with OffloadTo")
}

var errEarly = errors.New("enough")

// C7: panics, errors and early exits at any place leave nothing; steps afterwards are as if there had been none.
func TestEndsLeaveNothing(t *testing.T) {
	steps := 1000
	if testing.Short() {
		steps = 100
	}
	r := newRig(t)
	defer r.close()
	k := gptTask(r, 4)
	defer k.close()
	m := k.model.(*nn.GPT)
	dice := rand.New(rand.NewPCG(1, 2))
	at := -1 // blocks until trouble
	m.Wrap = func(s *autograd.Scope, i int, x *autograd.Value, block nn.Forward) *autograd.Value {
		y := block(s, x)
		if at--; at == 0 {
			switch dice.IntN(3) {
			case 0:
				panic("trouble")
			case 1:
				panic(&autograd.Error{Op: "trouble", Err: errEarly})
			case 2:
				runtime.Goexit()
			}
		}
		return y
	}
	all := variants(t, nil)
	var live int64
	var ends [4]int
	for i := range steps {
		v := all[dice.IntN(len(all))]
		if v.name == "dear-offloaded" || v.name == "some-offloaded" {
			v = all[0]
		}
		k.chain(checkpoint.Chain(v.schedule, v.opts...))
		at = dice.IntN(16)
		end := dice.IntN(3)
		done := make(chan int)
		go func() { // Goexit ends a goroutine
			how := 3
			defer func() {
				if recover() != nil {
					how = 2
				}
				done <- how
			}()
			err := r.step(func(s *autograd.Scope) {
				y := k.loss(s)
				if end == 0 {
					return // no Backward
				}
				y.Backward(s)
			})
			how = 0
			if err != nil {
				how = 1
			}
		}()
		ends[<-done]++
		for _, p := range nn.Params(m) {
			p.ZeroGrad()
		}
		if i == 10 {
			live = r.dev.Stats().Live
		}
	}
	require.Equal(t, live, r.dev.Stats().Live)
	require.Equal(t, nn.ParamBytes(m), live-inputBytes(k))
	require.NotContains(t, ends[:], 0, "returns, errors, panics, exits: %v", ends)
}

func inputBytes(k *task) (n int64) {
	for _, t := range k.free {
		n += t.Bytes()
	}
	return n
}

// Every failing allocation of a step under recomputation leaves nothing (M2).
func TestFailingAllocations(t *testing.T) {
	host, err := memory.NewDevice(memory.Config{Name: "host", Reserve: 1 << 30})
	require.NoError(t, err)
	for _, v := range variants(t, &hostSaver{host}) {
		if !slices.Contains([]string{"recursive", "mixed", "some-offloaded"}, v.name) || testing.Short() && v.name != "mixed" {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			r := newRig(t)
			defer r.close()
			k := gptTask(r, 3)
			defer k.close()
			k.chain(checkpoint.Chain(v.schedule, v.opts...))
			live := r.dev.Stats().Live
			for n := int64(1); ; n++ {
				r.dev.FailAt(n)
				err := r.step(func(s *autograd.Scope) { k.loss(s).Backward(s) })
				r.dev.FailAt(0)
				grads(t, k.model)
				require.Equal(t, live, r.dev.Stats().Live)
				require.Zero(t, host.Stats().Live)
				if err == nil {
					require.Greater(t, n, int64(100))
					break
				}
				var oom *memory.OOMError
				require.ErrorAs(t, err, &oom)
			}
		})
	}
	require.NoError(t, host.Close())
}
