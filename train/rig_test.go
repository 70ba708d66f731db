package train_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// meanSquaresOp is the mean over samples of (x.w + b - y)^2: inputs w [D], b [1], x [N D], y [N].
type meanSquaresOp struct{}

var meanSquaresRule = &autograd.Rule{
	Name: "testmeansquares",
	Reads: [][]autograd.Ref{
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3)},
		{autograd.In(0), autograd.In(1), autograd.In(2), autograd.In(3)},
	},
}

func (meanSquaresOp) Rule() *autograd.Rule { return meanSquaresRule }

func (meanSquaresOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType)
	return nil
}

// errorAt is x.w + b - y of sample i.
func errorAt(w, b, x, y []float64, i int) float64 {
	e := b[0] - y[i]
	for j, v := range w {
		e += v * x[i*len(w)+j]
	}
	return e
}

func (meanSquaresOp) Forward(f *autograd.Fwd) {
	data := func(i int) []float64 { return tensor.Data[float64](&f.In[i]) }
	sum, y := 0.0, data(3)
	for i := range y {
		e := errorAt(data(0), data(1), data(2), y, i)
		sum += e * e
	}
	tensor.Data[float64](&f.Out[0])[0] = sum / float64(len(y))
}

func (meanSquaresOp) Backward(b *autograd.Bwd) {
	data := func(i int) []float64 { return tensor.Data[float64](b.In(i)) }
	g, x, y := tensor.Data[float64](b.Grad(0))[0], data(2), data(3)
	into := func(k int) []float64 {
		dst, add := b.Into(k)
		if !add {
			clear(tensor.Data[float64](dst))
		}
		return tensor.Data[float64](dst)
	}
	dw, db := into(0), into(1)
	for i := range y {
		e := 2 * g / float64(len(y)) * errorAt(data(0), data(1), x, y, i)
		for j := range dw {
			dw[j] += e * x[i*len(dw)+j]
		}
		db[0] += e
	}
}

var (
	site    = memory.Site{Op: "test"}
	errMine = errors.New("mine")
)

const (
	features = 5
	micro    = 4 // samples a micro-batch
)

// rig is a linear model with an optimizer, and data that goes on for ever.
type rig struct {
	t    *testing.T
	dev  *memory.Device
	sess *autograd.Session
	w, b *autograd.Param
	opt  *optim.AdamW
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 30})
	require.NoError(t, err)
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1, Workers: 2})
	require.NoError(t, err)
	r := &rig{t: t, dev: dev, sess: sess}
	r.w = r.param("w", features)
	r.b = r.param("b", 1)
	r.opt, err = optim.NewAdamW([]*autograd.Param{r.w, r.b}, optim.AdamWConfig{LR: 0.1})
	require.NoError(t, err)
	return r
}

func (r *rig) param(name string, n int) *autograd.Param {
	p, err := r.sess.NewParam(name, tensor.Of(tensor.Float64, n), func(t *tensor.Tensor, st *tensor.Stream) error {
		return tensor.FillUniform(t, st, -1, 1)
	})
	require.NoError(r.t, err)
	return p
}

// close checks that nothing was left behind.
func (r *rig) close() {
	r.t.Helper()
	require.NoError(r.t, r.sess.Close())
	require.NoError(r.t, r.dev.Close())
}

func (r *rig) window(cfg train.WindowConfig) *train.Window {
	r.t.Helper()
	w, err := train.NewWindow(r.opt, cfg)
	require.NoError(r.t, err)
	return w
}

// loss is the mean over samples [lo, hi) of the data.
func (r *rig) loss(s *autograd.Scope, lo, hi int) *autograd.Value {
	input := func(id uint64, width int, shape ...int) *autograd.Value {
		t, err := tensor.New(r.dev, memory.Input, site, tensor.Of(tensor.Float64, shape...))
		if err != nil {
			panic(&autograd.Error{Op: "input", Err: err})
		}
		s.OnClose(t.Release)
		if !s.Dry() {
			d := tensor.Data[float64](t)
			for i := range d {
				k := uint64(lo*width+i)*2 + id
				d[i] = float64(k*k*2654435761%1000)/500 - 1
			}
		}
		return s.Input(t)
	}
	x, y := input(0, features, hi-lo, features), input(1, 1, hi-lo)
	return autograd.Apply(s, meanSquaresOp{}, r.w.Value(), r.b.Value(), x, y)
}

// add gives micro-batch i to win.
func (r *rig) add(s *autograd.Scope, win *train.Window, i int) (bool, error) {
	return win.Backward(s, r.loss(s, i*micro, (i+1)*micro))
}

func (r *rig) step(f func(s *autograd.Scope) error) error {
	return r.sess.Step(context.Background(), f)
}

// adds is a step of these micro-batches that ends with err.
func (r *rig) adds(win *train.Window, err error, is ...int) error {
	return r.step(func(s *autograd.Scope) error {
		for _, i := range is {
			if _, err := r.add(s, win, i); err != nil {
				return err
			}
		}
		return err
	})
}

func (r *rig) values() [][]float64 {
	clone := func(p *autograd.Param) []float64 {
		return append([]float64(nil), tensor.Data[float64](p.Tensor())...)
	}
	return [][]float64{clone(r.w), clone(r.b)}
}

func (r *rig) count() int64 {
	r.t.Helper()
	d, err := r.opt.StateDict()
	require.NoError(r.t, err)
	return d.Params[0].Step
}

// clean is what the parameters are after windows of k micro-batches that nothing went wrong in.
func clean(t *testing.T, k int, windows ...[]int) [][]float64 {
	t.Helper()
	r := newRig(t)
	defer r.close()
	win := r.window(train.WindowConfig{Micro: k})
	for _, is := range windows {
		require.Len(t, is, k)
		require.NoError(t, r.adds(win, nil, is...))
	}
	return r.values()
}
