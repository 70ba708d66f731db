package ops_test

import (
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A feed-forward layer of 64 rows and 256 features without gradients, as two ops and as one: what lies between them is 64 KiB.
func ExampleLinearActivation() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	sess, err := autograd.New(autograd.Config{Device: dev})
	if err != nil {
		log.Fatal(err)
	}
	defer sess.Close()
	weight, err := sess.NewParam("weight", tensor.Of(tensor.Float32, 256, 16), ramp)
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{Op: "example"}, tensor.Of(tensor.Float32, 64, 16))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()

	peak := func(layer func(s *autograd.Scope, x, w *autograd.Value) *autograd.Value) int64 {
		before := dev.Stats().Live
		plan, err := sess.Plan(func(s *autograd.Scope) error {
			layer(s.NoGrad(), s.Input(x), weight.Value())
			return nil
		}, autograd.PlanConfig{})
		if err != nil {
			log.Fatal(err)
		}
		return plan.Peak() - before
	}
	two := peak(func(s *autograd.Scope, x, w *autograd.Value) *autograd.Value {
		return ops.GELU(s, ops.Linear(s, x, w, nil))
	})
	one := peak(func(s *autograd.Scope, x, w *autograd.Value) *autograd.Value {
		return ops.LinearActivation(s, x, w, nil, ops.ActGELU)
	})
	fmt.Printf("two ops %d bytes, one %d, of which a kernel's scratch is %d\n", two, one, one-64*256*4)
	// Output: two ops 131072 bytes, one 73856, of which a kernel's scratch is 8320
}
