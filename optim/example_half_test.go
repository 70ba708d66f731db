package optim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// A weight of 1 in BFloat16 that is to fall by a thousandth a step: the type has nothing between 1 and 1 - 2^-8, so what
// rounds to nearest stands still.
func ExampleHalfUpdate() {
	for _, u := range []optim.HalfUpdate{optim.RoundNearest, optim.RoundStochastic, optim.RoundKahan, optim.MasterWeights} {
		dev, err := memory.NewDevice(memory.Config{})
		check(err)
		sess, err := autograd.New(autograd.Config{Device: dev})
		check(err)
		w, err := sess.NewParam("w", tensor.Of(tensor.BFloat16, 1000), func(t *tensor.Tensor, _ *tensor.Stream) error { return tensor.Fill(t, 1) })
		check(err)
		opt, err := optim.NewSGD([]*autograd.Param{w}, optim.SGDConfig{LR: 1e-3, Half: u})
		check(err)
		for range 500 {
			check(sess.Step(context.Background(), func(s *autograd.Scope) error {
				ops.Sum(s, w.Value()).Backward(s) // a gradient of 1
				defer opt.ZeroGrad(s)
				return opt.Step(s)
			}))
		}
		check(sess.Step(context.Background(), func(s *autograd.Scope) error {
			mean := ops.Mean(s, ops.Cast(s, w.Value(), tensor.Float32))
			fmt.Printf("%-15s %.2f, %d bytes\n", u, mean.Item(), dev.Stats().LiveByKind[memory.OptState])
			return nil
		}))
		check(sess.Close())
	}
	// Output:
	// RoundNearest    1.00, 0 bytes
	// RoundStochastic 0.50, 0 bytes
	// RoundKahan      0.50, 2000 bytes
	// MasterWeights   0.50, 4000 bytes
}
