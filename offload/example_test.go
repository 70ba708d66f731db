package offload_test

import (
	"context"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/offload"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// The model does not change: a scope with a store as its saver sends what backward will read to disk, and brings it back.
func Example() {
	dev, err := memory.NewDevice(memory.Config{Reserve: 1 << 28})
	if err != nil {
		panic(err)
	}
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	if err != nil {
		panic(err)
	}
	defer sess.Close()
	var net nn.Sequential
	for range 8 {
		fc, err := nn.NewLinear(sess, 64, 64)
		if err != nil {
			panic(err)
		}
		net = append(net, fc, nn.GELU{})
	}
	x, err := tensor.Zeros(dev, memory.Input, memory.Site{Op: "x"}, tensor.Of(tensor.Float32, 512, 64))
	if err != nil {
		panic(err)
	}
	step := func(s *autograd.Scope) error {
		y := net.Forward(s, s.Input(x))
		ops.Mean(s, ops.Square(s, y)).Backward(s)
		return nil
	}
	plain, err := sess.Plan(step, autograd.PlanConfig{})
	if err != nil {
		panic(err)
	}

	store, err := offload.Open(offload.Config{Device: dev, Tier: offload.Disk, BlockBytes: 64 << 10, Blocks: 4})
	if err != nil {
		panic(err)
	}
	defer store.Close()
	offloaded := func(s *autograd.Scope) error { return step(s.WithSaver(store)) }
	plan, err := sess.Plan(offloaded, autograd.PlanConfig{})
	if err != nil {
		panic(err)
	}
	fmt.Println("at most 70% of the peak, the ring included:", plan.Peak() <= plain.Peak()*7/10)

	dev.ResetPeak()
	for range 2 {
		if err := sess.Step(context.Background(), offloaded); err != nil {
			panic(err)
		}
	}
	fmt.Println("as predicted:", dev.Stats().Peak == plan.Peak())
	fmt.Println("on disk, at the peak:", store.Stats().DiskPeak)
	// Output:
	// at most 70% of the peak, the ring included: true
	// as predicted: true
	// on disk, at the peak: 2097152
}
