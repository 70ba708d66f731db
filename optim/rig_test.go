package optim_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// dotOp is the sum of w*x, float32 or float64: its gradient for w is x, to the bit, so tests say what gradients are.
type dotOp struct{}

var dotRule = &autograd.Rule{Name: "testdot", Reads: [][]autograd.Ref{{autograd.In(1)}}}

func (dotOp) Rule() *autograd.Rule { return dotRule }

func (dotOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if !in[0].Equal(in[1]) {
		return fmt.Errorf("want equal specs")
	}
	sh.Add(in[0].DType)
	return nil
}

func (dotOp) Forward(f *autograd.Fwd) {
	if f.In[0].DType() == tensor.Float32 {
		dot(tensor.Data[float32](&f.Out[0]), tensor.Data[float32](&f.In[0]), tensor.Data[float32](&f.In[1]))
	} else {
		dot(tensor.Data[float64](&f.Out[0]), tensor.Data[float64](&f.In[0]), tensor.Data[float64](&f.In[1]))
	}
}

func (dotOp) Backward(b *autograd.Bwd) {
	dst, add := b.Into(0)
	if dst.DType() == tensor.Float32 {
		scaled(tensor.Data[float32](dst), tensor.Data[float32](b.In(1)), tensor.Data[float32](b.Grad(0))[0], add)
	} else {
		scaled(tensor.Data[float64](dst), tensor.Data[float64](b.In(1)), tensor.Data[float64](b.Grad(0))[0], add)
	}
}

type float interface{ float32 | float64 }

func dot[T float](y, a, b []T) {
	y[0] = 0
	for i := range a {
		y[0] += a[i] * b[i]
	}
}

func scaled[T float](dst, x []T, k T, add bool) {
	for i := range x {
		v := k * x[i]
		if add {
			v += dst[i]
		}
		dst[i] = v
	}
}

var site = memory.Site{Op: "test"}

// rig is a device with a session.
type rig struct {
	t    *testing.T
	dev  *memory.Device
	sess *autograd.Session
}

func newRig(t *testing.T, workers int, cfg memory.Config) *rig {
	t.Helper()
	if cfg.Reserve == 0 && !cfg.Virtual {
		cfg.Reserve = 1 << 30
	}
	dev, err := memory.NewDevice(cfg)
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1, Workers: workers})
	require.NoError(t, err)
	return &rig{t, dev, sess}
}

func plainRig(t *testing.T) *rig { t.Helper(); return newRig(t, 2, memory.Config{}) }

// close checks that nothing was left behind: the session gives everything back, optimizers' state included.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

func (r *rig) param(name string, dt tensor.DType, data []float64, shape ...int) *autograd.Param {
	r.t.Helper()
	p, err := r.sess.NewParam(name, tensor.Of(dt, shape...), func(t *tensor.Tensor, _ *tensor.Stream) error {
		put(t, data)
		return nil
	})
	require.NoError(r.t, err)
	return p
}

func (r *rig) vec(name string, data ...float64) *autograd.Param {
	r.t.Helper()
	return r.param(name, tensor.Float64, data, len(data))
}

// input is a tensor that ends with the scope.
func (r *rig) input(s *autograd.Scope, sp tensor.Spec, data []float64) *autograd.Value {
	t, err := tensor.New(r.dev, memory.Input, site, sp)
	if err != nil {
		panic(&autograd.Error{Op: "input", Err: err})
	}
	s.OnClose(t.Release)
	if !s.Dry() {
		put(t, data)
	}
	return s.Input(t)
}

// push adds g to the gradient of p, by a backward pass.
func (r *rig) push(s *autograd.Scope, p *autograd.Param, g ...float64) {
	autograd.Apply(s, dotOp{}, p.Value(), r.input(s, p.Spec(), g)).Backward(s)
}

func (r *rig) step(f func(s *autograd.Scope) error) error {
	return r.sess.Step(context.Background(), f)
}

// ok runs a step that must succeed.
func (r *rig) ok(f func(s *autograd.Scope)) {
	r.t.Helper()
	require.NoError(r.t, r.step(func(s *autograd.Scope) error { f(s); return nil }))
}

// update is one optimizer step with these gradients; nil: none.
func (r *rig) update(opt optim.Optimizer, grads ...[]float64) {
	r.t.Helper()
	require.NoError(r.t, r.step(func(s *autograd.Scope) error {
		for i, g := range grads {
			if g != nil {
				r.push(s, opt.Params()[i], g...)
			}
		}
		if err := opt.Step(s); err != nil {
			return err
		}
		opt.ZeroGrad(s)
		return nil
	}))
}

func put(t *tensor.Tensor, data []float64) {
	if t.Buffer().Virtual() {
		return
	}
	switch t.DType() {
	case tensor.Float64:
		copy(tensor.Data[float64](t), data)
	case tensor.Float32:
		each(t, data, func(v float64) float32 { return float32(v) })
	case tensor.Float16:
		each(t, data, func(v float64) float16.Float16 { return float16.Fromfloat32(float32(v)) })
	case tensor.BFloat16:
		each(t, data, func(v float64) tensor.BF16 { return tensor.ToBF16(float32(v)) })
	}
}

func each[T tensor.Elem](t *tensor.Tensor, data []float64, f func(float64) T) {
	for i, v := range data {
		tensor.Data[T](t)[i] = f(v)
	}
}

func values(t *tensor.Tensor) []float64 {
	v := make([]float64, t.Elems())
	for i := range v {
		switch t.DType() {
		case tensor.Float64:
			v[i] = tensor.Data[float64](t)[i]
		case tensor.Float32:
			v[i] = float64(tensor.Data[float32](t)[i])
		case tensor.Float16:
			v[i] = float64(tensor.Data[float16.Float16](t)[i].Float32())
		case tensor.BFloat16:
			v[i] = float64(tensor.Data[tensor.BF16](t)[i].Float32())
		}
	}
	return v
}

func val(p *autograd.Param) []float64 { return values(p.Tensor()) }

func near(t *testing.T, want, got []float64, rel, abs float64, msg string) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		if !(math.Abs(want[i]-got[i]) <= abs+rel*math.Abs(want[i])) {
			require.FailNowf(t, "too far apart", "%s: element %d is %v: want %v", msg, i, got[i], want[i])
		}
	}
}

// wave is n numbers of order one, different for each seed.
func wave(n int, seed uint64) []float64 {
	v := make([]float64, n)
	for i := range v {
		seed = seed*6364136223846793005 + 1442695040888963407
		v[i] = float64(int64(seed)>>11) / (1 << 52)
	}
	return v
}

// steps are the step counters of an optimizer.
func steps(t *testing.T, o interface {
	StateDict() (*optim.StateDict, error)
}) []int64 {
	t.Helper()
	d, err := o.StateDict()
	require.NoError(t, err)
	var n []int64
	for _, p := range d.Params {
		n = append(n, p.Step)
	}
	return n
}
