package optim_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// What a step of AdamW takes, by the dtype of the parameters and by how halves are rounded.
func BenchmarkHalfUpdate(b *testing.B) {
	const n = 1 << 22
	run := func(dt tensor.DType, u optim.HalfUpdate) {
		b.Run(fmt.Sprint(dt, "/", u), func(b *testing.B) {
			dev, err := memory.NewDevice(memory.Config{})
			require.NoError(b, err)
			sess, err := autograd.New(autograd.Config{Device: dev, Workers: 1})
			require.NoError(b, err)
			defer sess.Close()
			p, err := sess.NewParam("p", tensor.Of(dt, n), nil)
			require.NoError(b, err)
			o, err := optim.NewAdamW([]*autograd.Param{p}, optim.AdamWConfig{LR: 1e-3, Half: u})
			require.NoError(b, err)
			g, err := tensor.Zeros(dev, memory.Other, site, p.Spec())
			require.NoError(b, err)
			defer g.Release()
			require.NoError(b, p.SetGrad(g))
			require.NoError(b, sess.Step(b.Context(), func(s *autograd.Scope) error {
				for b.Loop() {
					if err := o.Step(s); err != nil {
						return err
					}
				}
				return nil
			}))
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/param")
		})
	}
	run(tensor.Float32, optim.RoundNearest)
	for _, dt := range []tensor.DType{tensor.BFloat16, tensor.Float16} {
		for _, u := range []optim.HalfUpdate{optim.RoundNearest, optim.RoundStochastic, optim.RoundKahan, optim.MasterWeights} {
			run(dt, u)
		}
	}
}
