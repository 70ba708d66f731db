package amp_test

import (
	"context"
	"fmt"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
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

// Loss scaling: an update whose gradients overflow is skipped, and the factor falls; after some that do not it rises.
func ExampleGradScaler() {
	dev, err := memory.NewDevice(memory.Config{})
	check(err)
	sess, err := autograd.New(autograd.Config{Device: dev})
	check(err)
	fc, err := nn.NewLinear(sess, 1, 1, nn.LinearConfig{NoBias: true, InitWeight: nn.Constant(1)})
	check(err)
	opt, err := optim.NewSGD(nn.Params(fc), optim.SGDConfig{LR: 0.5})
	check(err)
	scaler, err := amp.NewGradScaler(amp.GradScalerConfig{InitScale: 1 << 17, GrowthInterval: 2})
	check(err)
	x, err := tensor.From(dev, memory.Input, memory.Site{}, []float32{0.5}, 1, 1)
	check(err)
	for range 5 {
		check(sess.Step(context.Background(), func(s *autograd.Scope) error {
			low := s.WithAutocast(amp.Float16)
			scaler.Backward(s, ops.Sum(low, fc.Forward(low, s.Input(x))))
			stepped, err := scaler.Step(s, opt)
			if err != nil {
				return err
			}
			opt.ZeroGrad(s)
			if err := scaler.Update(s); err != nil {
				return err
			}
			fmt.Println(stepped, scaler.Scale(), fc.Weight.Tensor().At(0, 0))
			return nil
		}))
	}
	skip, _ := scaler.LastSkip()
	fmt.Println(skip)
	// Output:
	// false 65536 1
	// false 32768 1
	// true 32768 0.75
	// true 65536 0.5
	// false 32768 0.5
	// element 0 of the gradient of weight is +Inf at a loss scale of 65536
}
