package amp_test

import (
	"context"
	"fmt"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Under autocast a product gives the half type, a sum float32, and gradients have the dtype of their parameter.
func Example_autocast() {
	dev, err := memory.NewDevice(memory.Config{})
	check(err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	check(err)
	fc, err := nn.NewLinear(sess, 4, 2)
	check(err)
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{}, tensor.Of(tensor.Float32, 3, 4))
	check(err)
	check(sess.Step(context.Background(), func(s *autograd.Scope) error {
		low := s.WithAutocast(amp.BFloat16)
		y := fc.Forward(low, s.Input(x))
		loss := ops.Sum(low, y)
		loss.Backward(s)
		fmt.Println(y.DType(), loss.DType(), fc.Weight.Grad().DType())
		return nil
	}))
	// Output: bfloat16 float32 float32
}
