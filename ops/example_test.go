package ops_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// A classifier of two layers, written with ops alone: its loss, what is kept for backward, and a gradient.
func Example() {
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

	hidden, err := sess.NewParam("hidden", tensor.Of(tensor.Float32, 16, 2), ramp)
	if err != nil {
		log.Fatal(err)
	}
	classes, err := sess.NewParam("classes", tensor.Of(tensor.Float32, 3, 16), ramp)
	if err != nil {
		log.Fatal(err)
	}
	at := memory.Site{Op: "example"}
	x, err := tensor.From(dev, memory.Input, at, []float32{1, -1, 2, 0.5}, 2, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := tensor.From(dev, memory.Input, at, []int64{2, 0}, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()

	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		h := ops.ReLU(s, ops.Linear(s, s.Input(x), hidden.Value(), nil))
		loss := ops.CrossEntropy(s, ops.Linear(s, h, classes.Value(), nil), s.Input(y))
		fmt.Printf("loss %.4f\n", loss.Item())
		fmt.Print(autograd.FormatSaved(autograd.Saved(loss)))
		loss.Backward(s)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("gradient of hidden[15 0]: %.4f\n", hidden.Grad().At(15, 0))
	// Output:
	// loss 6.5505
	//           16  float32[2 2]             linear         .                        input 0, for the gradient of input 1 (memory)
	//            4  uint8[4]                 relu           .                        output 1, for the gradient of input 0 (memory)
	//            0  float32[3 16]            linear         .                        input 1, for the gradient of input 0 (param)
	//          128  float32[2 16]            linear         .                        input 0, for the gradient of input 1 (memory)
	//           24  float32[2 3]             cross_entropy  .                        input 0, for the gradient of input 0 (memory)
	//           16  int64[2]                 cross_entropy  .                        input 1, for the gradient of input 0 (memory)
	//            8  float32[2]               cross_entropy  .                        output 1, for the gradient of input 0 (memory)
	//          196  bytes kept for backward
	// gradient of hidden[15 0]: 1.3317
}

// ramp fills a parameter with equal steps from -1 up.
func ramp(t *tensor.Tensor, _ *tensor.Stream) error {
	return tensor.FillRange(t, -1, 2/float64(t.Elems()))
}
