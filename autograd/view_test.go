package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// viewOp is a view of one output, whatever of makes of a tensor.
type viewOp struct {
	rule *autograd.Rule
	of   func(x *tensor.Tensor) (tensor.Tensor, error)
}

func (o viewOp) Rule() *autograd.Rule { return o.rule }

func (o viewOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	x := tensor.Unbacked(in[0])
	v, err := o.of(&x)
	if err == nil {
		sh.Like(v.Spec())
	}
	return err
}

func (o viewOp) View(x *tensor.Tensor, _ int) tensor.Tensor {
	v, err := o.of(x)
	if err != nil {
		panic(err)
	}
	return v
}

func (viewOp) Forward(*autograd.Fwd)  {}
func (viewOp) Backward(*autograd.Bwd) {}

// reshapeOp is a view if strides allow it.
type reshapeOp struct{ viewOp }

func (o reshapeOp) Fits(x *tensor.Tensor) bool {
	_, err := o.of(x)
	return err == nil
}

var (
	flatOp = reshapeOp{viewOp{&autograd.Rule{Name: "testflat"}, func(x *tensor.Tensor) (tensor.Tensor, error) { return x.Reshape(-1) }}}
	turnOp = viewOp{&autograd.Rule{Name: "testturn"}, func(x *tensor.Tensor) (tensor.Tensor, error) { return x.Transpose(0, 1) }}
	wideOp = viewOp{&autograd.Rule{Name: "testwide", Pass: []bool{true}}, func(x *tensor.Tensor) (tensor.Tensor, error) { return x.Expand(3, -1) }}
)

// joinOp puts vectors one after the other.
type joinOp struct{}

var joinRule = &autograd.Rule{Name: "testjoin", Strided: true}

func (joinOp) Rule() *autograd.Rule { return joinRule }

func (joinOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	n := 0
	for _, x := range in {
		n += x.Dim(0)
	}
	sh.Add(in[0].DType, n)
	return nil
}

func (joinOp) Forward(f *autograd.Fwd) {
	at := 0
	for i := range f.In {
		each(&f.In[i], func(idx []int) {
			set(&f.Out[0], []int{at}, f.In[i].At(idx...))
			at++
		})
	}
}

func (joinOp) Part(y *tensor.Tensor, in []tensor.Spec, i int) tensor.Tensor {
	lo := 0
	for _, x := range in[:i] {
		lo += x.Dim(0)
	}
	v, err := y.Slice(0, lo, lo+in[i].Dim(0))
	if err != nil {
		panic(err)
	}
	return v
}

func (joinOp) Backward(*autograd.Bwd) { panic("the engine passes gradients on") }

func view(s *autograd.Scope, op autograd.Op, x ...*autograd.Value) *autograd.Value {
	return autograd.Apply(s, op, x...)
}

// events runs a step and gives the sites of what it allocated.
func (r *rig) events(f func(s *autograd.Scope)) (sites []string) {
	r.t.Helper()
	old := r.dev.SetTrace(func(e memory.Event) {
		if e.Act == memory.Alloc {
			sites = append(sites, e.Site.Op)
		}
	})
	r.ok(f)
	r.dev.SetTrace(old)
	return sites
}

func TestReshapeIsAViewWhereStridesAllow(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4, 5, 6}, 2, 3)
	ones := r.tensor([]float64{1, 1, 1, 1, 1, 1}, 6)
	defer ones.Release()
	for _, c := range []struct {
		turned bool
		sites  []string
		y      []float64
	}{
		// testmul' is the parameter's own gradient.
		{false, []string{"testmul", "backward", "testmul'"}, []float64{1, 4, 9, 16, 25, 36}},
		// testmul' is the reshaped value's gradient, testflat' the parameter's.
		{true, []string{"testflat", "testmul", "backward", "testmul'", "testflat'"}, []float64{1, 16, 4, 25, 9, 36}},
	} {
		sites := r.events(func(s *autograd.Scope) {
			h := w.Value()
			if c.turned {
				h = view(s, turnOp, h)
			}
			v := view(s, flatOp, h)
			require.Equal(t, !c.turned, v.Tensor().Buffer() == w.Tensor().Buffer())
			y := mul(s, v, v)
			require.Equal(t, c.y, tensor.Data[float64](y.Tensor()))
			y.Backward(s, autograd.WithGrad(ones))
		})
		require.Equal(t, c.sites, sites)
		require.Equal(t, []float64{2, 4, 6, 8, 10, 12}, grad(w))
		w.ZeroGrad()
	}
}

// The strides of a gradient may differ from the value's: of a strided input it is contiguous.
func TestReshapeOfAGradientWithOtherStrides(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	x := r.tensor([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	defer x.Release()
	turned, err := x.Transpose(0, 1)
	require.NoError(t, err)
	r.ok(func(s *autograd.Scope) {
		in := s.Input(&turned).RequireGrad()
		back := view(s, turnOp, in)
		v := view(s, flatOp, back)
		require.Same(t, x.Buffer(), v.Tensor().Buffer(), "a view of a contiguous value")
		k := s.Input(r.vector(s, 1, 10, 100, 1000, 10000, 100000))
		sum(s, add(s, mul(s, v, k), view(s, flatOp, mul(s, back, back)))).Backward(s)
		require.Equal(t, []float64{1 + 2, 1000 + 8, 10 + 4, 10000 + 10, 100 + 6, 100000 + 12}, tensor.Data[float64](in.Grad()))
	})
}

// vector is a tensor that the scope's end releases.
func (r *rig) vector(s *autograd.Scope, data ...float64) *tensor.Tensor {
	t := r.tensor(data, len(data))
	s.OnClose(t.Release)
	return t
}

// A gradient that is passed on as it is goes through a reshape, with or without a hook, and shares one buffer.
func TestReshapePassesGradientsThrough(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 2, 2)
	for _, hooked := range []bool{false, true} {
		sites := r.events(func(s *autograd.Scope) {
			h := mul(s, w.Value(), w.Value())
			v := view(s, flatOp, h)
			if hooked {
				v.OnGrad(func(_ *autograd.Scope, g *autograd.Value) *autograd.Value {
					require.Equal(t, []int{4}, g.Shape())
					return nil
				})
			}
			sum(s, add(s, v, v.Detach(s))).Backward(s)
		})
		require.Equal(t, []float64{2, 4, 6, 8}, grad(w))
		require.Equal(t, []string{"testmul", "testadd", "testsum", "backward", "testsum'", "testmul'"}, sites)
		w.ZeroGrad()
	}
}

func TestExpandedView(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2}, 2)
	k := r.tensor([]float64{1, 2, 3, 4, 5, 6}, 3, 2)
	defer k.Release()
	r.ok(func(s *autograd.Scope) {
		live := r.dev.Stats().Live
		v := view(s, wideOp, w.Value())
		require.Equal(t, live, r.dev.Stats().Live)
		require.Equal(t, []int{3, 2}, v.Shape())
		calls := 0
		v.OnGrad(func(_ *autograd.Scope, g *autograd.Value) *autograd.Value {
			calls++
			require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, tensor.Data[float64](g.Tensor()))
			return nil
		})
		g := autograd.Grad(s, sum(s, mul(s, v, s.Input(k))), []*autograd.Value{v, w.Value()}, autograd.RetainGraph())
		require.Equal(t, []float64{1, 2, 3, 4, 5, 6}, tensor.Data[float64](g[0].Tensor()))
		require.Equal(t, []float64{9, 12}, tensor.Data[float64](g[1].Tensor()))
		sum(s, add(s, mul(s, v, s.Input(k)), w.Value())).Backward(s)
		require.Equal(t, 2, calls)
	})
	require.Equal(t, []float64{9 + 3, 12 + 3}, grad(w))
	r.fails(func(s *autograd.Scope) {
		v := view(s, wideOp, mul(s, w.Value(), w.Value()))
		addInPlace(s, v, v)
	}, "more than one element of the written-to tensor")
}

// Parts of a gradient that lie together are shared: nothing is allocated or copied for them.
func TestJoinHandsPartsOn(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	a, b := r.tensor([]float64{1, 2}, 2), r.tensor([]float64{3, 4, 5}, 3)
	defer a.Release()
	defer b.Release()
	k := r.tensor([]float64{1, 2, 3, 4, 5}, 5)
	defer k.Release()
	sites := r.events(func(s *autograd.Scope) {
		x, y := s.Input(a).RequireGrad(), s.Input(b).RequireGrad()
		sum(s, mul(s, view(s, joinOp{}, x, y), s.Input(k))).Backward(s)
		require.Equal(t, []float64{1, 2}, tensor.Data[float64](x.Grad()))
		require.Equal(t, []float64{3, 4, 5}, tensor.Data[float64](y.Grad()))
		require.Same(t, x.Grad().Buffer(), y.Grad().Buffer())
		mul(s, x, x).Backward(s, autograd.WithGrad(a)) // must not write into the other's
		require.Equal(t, []float64{1 + 2, 2 + 8}, tensor.Data[float64](x.Grad()))
		require.Equal(t, []float64{3, 4, 5}, tensor.Data[float64](y.Grad()))
	})
	require.NotContains(t, sites, "testjoin'")
	f := func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
		y := view(s, joinOp{}, in[0], in[1], in[0])
		return []*autograd.Value{mul(s, y, y), view(s, joinOp{}, in[1])}
	}
	require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{a, b}, gradcheck.Config{}))
}

// takerOp multiplies, and takes input 0 with any strides. strided counts, in three digits, what reached Forward, was a
// destination, and reached Backward without a copy.
type takerOp struct {
	mulOp
	strided *int
}

var takerRule = &autograd.Rule{Name: "testtaker", Reads: [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}}}

func (takerOp) Rule() *autograd.Rule { return takerRule }

func (takerOp) Takes(_ []tensor.Spec, i int, _ *tensor.Tensor) bool { return i == 0 }

func (o takerOp) Forward(f *autograd.Fwd) {
	for i := range f.In {
		if !f.In[i].IsContiguous() {
			*o.strided += 1 << i
		}
	}
	o.mulOp.Forward(f)
}

func (o takerOp) Backward(b *autograd.Bwd) {
	for i := range 2 {
		if dst, _ := b.Into(i); !dst.IsContiguous() {
			*o.strided += 10 << i
		}
		if !b.In(i).IsContiguous() {
			*o.strided += 100 << i
		}
	}
	o.mulOp.Backward(b)
}

func TestTakerGetsWhatItTakes(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	a := r.tensor([]float64{1, 2, 3, 4, 5, 6}, 2, 3)
	b := r.tensor([]float64{7, 8, 9, 10, 11, 12}, 2, 3)
	defer a.Release()
	defer b.Release()
	n := 0
	f := func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
		return []*autograd.Value{view(s, takerOp{strided: &n}, view(s, turnOp, in[0]), view(s, turnOp, in[1]))}
	}
	r.ok(func(s *autograd.Scope) {
		x, y := s.Input(a).RequireGrad(), s.Input(b).RequireGrad()
		sum(s, f(s, []*autograd.Value{x, y})[0]).Backward(s)
		require.Equal(t, tensor.Data[float64](b), tensor.Data[float64](x.Grad()))
		require.Equal(t, tensor.Data[float64](a), tensor.Data[float64](y.Grad()))
	})
	require.Equal(t, 1+10+100, n, "input 0 and its gradient where they lie, input 1 copied")
	require.NoError(t, gradcheck.Check(r.sess, f, []*tensor.Tensor{a, b}, gradcheck.Config{}))
}

func TestViewOfAViewOfALeafIsNotWritten(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	w := r.param("w", []float64{1, 2, 3, 4}, 4)
	r.fails(func(s *autograd.Scope) {
		v := view(s, firstHalfOp{}, view(s, firstHalfOp{}, w.Value()))
		addInPlace(s, v, v)
	}, "a view of a leaf that requires grad")
}
