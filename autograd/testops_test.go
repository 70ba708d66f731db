package autograd_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// Ops of the tests: small, float64 only, and written as a user would write them.

// mulOp is y = a*b with broadcasting.
type mulOp struct{}

var mulRule = &autograd.Rule{
	Name:      "testmul",
	Reads:     [][]autograd.Ref{{autograd.In(1)}, {autograd.In(0)}},
	Broadcast: true,
}

func (mulOp) Rule() *autograd.Rule { return mulRule }

func (mulOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	out, err := tensor.BroadcastShapes(in[0].Shape, in[1].Shape)
	if err != nil {
		return err
	}
	if in[0].DType != tensor.Float64 || in[1].DType != tensor.Float64 {
		return fmt.Errorf("want float64")
	}
	sh.Add(tensor.Float64, out...)
	return nil
}

func (mulOp) Forward(f *autograd.Fwd) {
	each(&f.Out[0], func(i []int) { set(&f.Out[0], i, f.In[0].At(i...)*f.In[1].At(i...)) })
}

func (mulOp) Backward(b *autograd.Bwd) {
	g := b.Grad(0)
	for k := range 2 {
		dst, add := b.Into(k)
		if dst == nil {
			continue
		}
		other := b.In(1 - k)
		each(g, func(i []int) {
			v := g.At(i...) * other.At(i...)
			if add {
				v += dst.At(i...)
			}
			set(dst, i, v)
		})
	}
}

func mul(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, mulOp{}, a, b)
}

// addOp is y = a+b with broadcasting, or a += b.
type addOp struct{ inPlace bool }

var (
	addRule   = &autograd.Rule{Name: "testadd", Pass: []bool{true, true}, Broadcast: true}
	addInRule = &autograd.Rule{Name: "testadd_", Pass: []bool{true, true}, Broadcast: true, InPlace: true}
)

func (o addOp) Rule() *autograd.Rule {
	if o.inPlace {
		return addInRule
	}
	return addRule
}

func (addOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	out, err := tensor.BroadcastShapes(in[0].Shape, in[1].Shape)
	if err == nil {
		sh.Add(in[0].DType, out...)
	}
	return err
}

func (addOp) Forward(f *autograd.Fwd) {
	each(&f.Out[0], func(i []int) { set(&f.Out[0], i, f.In[0].At(i...)+f.In[1].At(i...)) })
}

func (addOp) Backward(*autograd.Bwd) { panic("the engine passes gradients on") }

func add(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, addOp{}, a, b)
}

func addInPlace(s *autograd.Scope, a, b *autograd.Value) *autograd.Value {
	return autograd.Apply(s, addOp{true}, a, b)
}

// halvesOp gives the two halves of the last dimension, as views.
type halvesOp struct{}

var halvesRule = &autograd.Rule{Name: "testhalves", MultiView: true}

func (halvesOp) Rule() *autograd.Rule { return halvesRule }

func (halvesOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	shape := append([]int(nil), in[0].Shape...)
	shape[len(shape)-1] /= 2
	sh.Add(in[0].DType, shape...)
	sh.Add(in[0].DType, shape...)
	return nil
}

func (halvesOp) View(x *tensor.Tensor, i int) tensor.Tensor {
	n := x.Dim(-1) / 2
	v, err := x.Slice(-1, i*n, (i+1)*n)
	if err != nil {
		panic(err)
	}
	return v
}
func (halvesOp) Forward(*autograd.Fwd)  {}
func (halvesOp) Backward(*autograd.Bwd) {}

func halves(s *autograd.Scope, x *autograd.Value) (a, b *autograd.Value) {
	y := autograd.ApplyN(s, halvesOp{}, x)
	return y[0], y[1]
}

// sumOp is the sum of all elements.
type sumOp struct{}

var sumRule = &autograd.Rule{Name: "testsum"}

func (sumOp) Rule() *autograd.Rule { return sumRule }
func (sumOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType)
	return nil
}

func (sumOp) Forward(f *autograd.Fwd) {
	sum := 0.0
	for _, v := range tensor.Data[float64](&f.In[0]) {
		sum += v
	}
	tensor.Data[float64](&f.Out[0])[0] = sum
}

func (sumOp) Backward(b *autograd.Bwd) {
	g := tensor.Data[float64](b.Grad(0))[0]
	dst, add := b.Into(0)
	d := tensor.Data[float64](dst)
	for i := range d {
		if !add {
			d[i] = 0
		}
		d[i] += g
	}
}

func sum(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return autograd.Apply(s, sumOp{}, x)
}

// each calls f with every index of t.
func each(t *tensor.Tensor, f func(i []int)) {
	idx := make([]int, t.Rank())
	for n := 0; n < t.Elems(); n++ {
		r := n
		for d := t.Rank() - 1; d >= 0; d-- {
			idx[d] = r % t.Dim(d)
			r /= t.Dim(d)
		}
		f(idx)
	}
}

func set(t *tensor.Tensor, i []int, v float64) {
	off := 0
	for d, k := range i {
		off += k * t.Stride(d)
	}
	tensor.Raw[float64](t)[off] = v
}

var site = memory.Site{Op: "test"}

// rig is a device with a session.
type rig struct {
	t    *testing.T
	dev  *memory.Device
	sess *autograd.Session
}

func newRig(t *testing.T, cfg memory.Config) *rig {
	t.Helper()
	if cfg.Reserve == 0 && !cfg.Virtual {
		cfg.Reserve = 1 << 30
	}
	dev, err := memory.NewDevice(cfg)
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1, Workers: 2})
	require.NoError(t, err)
	return &rig{t, dev, sess}
}

// close checks that nothing was left behind.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

func (r *rig) tensor(data []float64, shape ...int) *tensor.Tensor {
	r.t.Helper()
	t, err := tensor.From(r.dev, memory.Input, site, data, shape...)
	require.NoError(r.t, err)
	return t
}

func (r *rig) param(name string, data []float64, shape ...int) *autograd.Param {
	r.t.Helper()
	p, err := r.sess.NewParam(name, tensor.Of(tensor.Float64, shape...), func(t *tensor.Tensor, _ *tensor.Stream) error {
		copy(tensor.Data[float64](t), data)
		return nil
	})
	require.NoError(r.t, err)
	return p
}

func (r *rig) step(f func(s *autograd.Scope)) error {
	return r.sess.Step(context.Background(), func(s *autograd.Scope) error { f(s); return nil })
}

// ok runs a step that must succeed.
func (r *rig) ok(f func(s *autograd.Scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(f))
}

// fails runs a step that must fail with all these texts, and leave live bytes as they were.
func (r *rig) fails(f func(s *autograd.Scope), texts ...string) {
	r.t.Helper()
	live := r.dev.Stats().Live
	err := r.step(f)
	require.Error(r.t, err)
	for _, text := range texts {
		require.ErrorContains(r.t, err, text)
	}
	require.Equal(r.t, live, r.dev.Stats().Live, "live bytes after %v", err)
}

func grad(p *autograd.Param) []float64 { return tensor.Data[float64](p.Grad()) }
