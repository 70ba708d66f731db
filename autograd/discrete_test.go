package autograd_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// signOp gives 2x, unless alone, and where x is positive.
type signOp struct{ alone bool }

var signRule = &autograd.Rule{Name: "testsign", Reads: [][]autograd.Ref{{autograd.In(0)}}}

func (signOp) Rule() *autograd.Rule { return signRule }

func (o signOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if !o.alone {
		sh.Like(in[0])
	}
	sh.Add(tensor.Bool, in[0].Shape...)
	return nil
}

func (o signOp) Forward(f *autograd.Fwd) {
	for i, v := range tensor.Data[float64](&f.In[0]) {
		tensor.Data[bool](&f.Out[len(f.Out)-1])[i] = v > 0
		if !o.alone {
			tensor.Data[float64](&f.Out[0])[i] = 2 * v
		}
	}
}

func (signOp) Backward(b *autograd.Bwd) {
	dst, add := b.Into(0)
	for i, g := range tensor.Data[float64](b.Grad(0)) {
		if add {
			g += tensor.Data[float64](dst)[i] / 2
		}
		tensor.Data[float64](dst)[i] = 2 * g
	}
}

// An output that is not of floating point has no gradient; where there is no other, nothing is recorded or saved.
func TestOutputsWithoutGradient(t *testing.T) {
	r := newRig(t, memory.Config{})
	defer r.close()
	p := r.param("p", []float64{1, -2}, 2)
	r.ok(func(s *autograd.Scope) {
		ys := autograd.ApplyN(s, signOp{}, p.Value())
		require.True(t, ys[0].RequiresGrad())
		require.False(t, ys[1].RequiresGrad())
		require.Len(t, autograd.Saved(ys[0]), 1)
		require.Empty(t, autograd.Saved(ys[1]))
		y := autograd.Apply(s, signOp{alone: true}, p.Value())
		require.False(t, y.RequiresGrad())
		require.Empty(t, autograd.Saved(y))
		autograd.Apply(s, sumOp{}, ys[0]).Backward(s)
	})
	require.Equal(t, []float64{2, 2}, tensor.Data[float64](p.Grad()))
}

// Two gradients of a half type that meet are added in float32 and rounded once.
func TestHalfGradientsThatMeet(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.Float16, tensor.BFloat16} {
		r := newRig(t, memory.Config{})
		x, err := tensor.Zeros(r.dev, memory.Input, site, tensor.Of(dt, 2))
		require.NoError(t, err)
		g, err := tensor.Zeros(r.dev, memory.Input, site, tensor.Of(dt, 1))
		require.NoError(t, err)
		require.NoError(t, tensor.Fill(g, 1.5))
		var got []float64
		r.ok(func(s *autograd.Scope) {
			v := s.Input(x).RequireGrad()
			a, _ := halves(s, v)
			a.Backward(s, autograd.WithGrad(g), autograd.RetainGraph())
			a.Backward(s, autograd.WithGrad(g))
			got = []float64{v.Grad().At(0), v.Grad().At(1)}
		})
		require.Equal(t, []float64{3, 0}, got)
		x.Release()
		g.Release()
		r.close()
	}
}
