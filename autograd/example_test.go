package autograd_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// squareOp is an op of the user's: the sum of squares of a float32 tensor. Its gradient, 2 g x, reads the input.
type squareOp struct{}

var squareRule = &autograd.Rule{
	Name:  "sumsquares",
	Reads: [][]autograd.Ref{{autograd.In(0)}}, // what the gradient of input 0 reads: the engine saves nothing else
}

func (squareOp) Rule() *autograd.Rule { return squareRule }

// Infer checks the input and says what the engine allocates.
func (squareOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	if in[0].DType != tensor.Float32 {
		return fmt.Errorf("want float32")
	}
	sh.Add(tensor.Float32) // a scalar
	return nil
}

func (squareOp) Forward(f *autograd.Fwd) {
	var sum float64
	for _, x := range tensor.Data[float32](&f.In[0]) {
		sum += float64(x) * float64(x)
	}
	tensor.Data[float32](&f.Out[0])[0] = float32(sum)
}

func (squareOp) Backward(b *autograd.Bwd) {
	dst, add := b.Into(0) // the parameter's gradient itself
	g := tensor.Data[float32](b.Grad(0))[0]
	d := tensor.Data[float32](dst)
	for i, x := range tensor.Data[float32](b.In(0)) {
		if !add {
			d[i] = 0
		}
		d[i] += 2 * g * x
	}
}

// An op of one's own: an Op, and Apply.
func Example() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	w, err := sess.NewParam("w", tensor.Of(tensor.Float32, 3), func(t *tensor.Tensor, _ *tensor.Stream) error {
		copy(tensor.Data[float32](t), []float32{1, 2, 3})
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	step := func(s *autograd.Scope) error {
		loss := autograd.Apply(s, squareOp{}, w.Value())
		loss.Backward(s)
		return nil
	}

	plan, err := sess.Plan(step, autograd.PlanConfig{}) // dry: the same code, no kernels
	if err != nil {
		log.Fatal(err)
	}
	dev.ResetPeak()
	if err := sess.Step(context.Background(), step); err != nil {
		log.Fatal(err)
	}
	fmt.Println("gradient:", tensor.Data[float32](w.Grad()))
	fmt.Println("peak:", dev.Stats().Peak, "bytes, predicted:", plan.Steps[0].Peak)
	fmt.Println(sess.Close(), dev.Close())
	// Output:
	// gradient: [2 4 6]
	// peak: 32 bytes, predicted: 32
	// <nil> <nil>
}

// Saved lists what backward will read, and why it is kept.
func ExampleSaved() {
	dev, _ := memory.NewDevice(memory.Config{Virtual: true})
	sess, _ := autograd.New(autograd.Config{Device: dev})
	w, _ := sess.NewParam("w", tensor.Of(tensor.Float32, 1000), nil)
	x, _ := tensor.New(dev, memory.Input, memory.Site{}, tensor.Of(tensor.Float32, 1000))
	_ = sess.Step(context.Background(), func(s *autograd.Scope) error {
		fmt.Print(autograd.FormatSaved(autograd.Saved(autograd.Apply(s, squareOp{}, w.Value()))))
		v := s.Input(x).RequireGrad()
		fmt.Print(autograd.FormatSaved(autograd.Saved(autograd.Apply(s.Named("net"), squareOp{}, v))))
		return nil
	})
	// Output:
	//            0  float32[1000]            sumsquares     .                        input 0, for the gradient of input 0 (param)
	//            0  bytes kept for backward
	//         4000  float32[1000]            sumsquares     net                      input 0, for the gradient of input 0 (memory)
	//         4000  bytes kept for backward
}
