package train_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// distance is the mean of (w - y)^2 over a batch y. Package ops has ready losses.
type distance struct{ y []float64 }

var distanceRule = &autograd.Rule{Name: "distance", Reads: [][]autograd.Ref{{autograd.In(0)}}}

func (distance) Rule() *autograd.Rule { return distanceRule }

func (distance) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType)
	return nil
}

func (d distance) Forward(f *autograd.Fwd) {
	w, sum := tensor.Data[float64](&f.In[0])[0], 0.0
	for _, y := range d.y {
		sum += (w - y) * (w - y)
	}
	tensor.Data[float64](&f.Out[0])[0] = sum / float64(len(d.y))
}

func (d distance) Backward(b *autograd.Bwd) {
	w, g, sum := tensor.Data[float64](b.In(0))[0], tensor.Data[float64](b.Grad(0))[0], 0.0
	for _, y := range d.y {
		sum += 2 * (w - y)
	}
	dst, add := b.Into(0)
	if !add {
		tensor.Data[float64](dst)[0] = 0
	}
	tensor.Data[float64](dst)[0] += g * sum / float64(len(d.y))
}

// A batch of six in three micro-batches, each in a step of its own: only the third updates the parameter.
func ExampleWindow() {
	dev, err := memory.NewDevice(memory.Config{Limit: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer sess.Close()
	w, err := sess.NewParam("w", tensor.Of(tensor.Float64, 1), nil)
	if err != nil {
		log.Fatal(err)
	}
	opt, err := optim.NewSGD([]*autograd.Param{w}, optim.SGDConfig{LR: 0.5})
	if err != nil {
		log.Fatal(err)
	}
	win, err := train.NewWindow(opt, train.WindowConfig{Micro: 3})
	if err != nil {
		log.Fatal(err)
	}
	for _, batch := range [][]float64{{1, 2}, {3, 4}, {5, 9}} {
		err := sess.Step(context.Background(), func(s *autograd.Scope) error {
			loss := autograd.Apply(s, distance{batch}, w.Value())
			updated, err := win.Backward(s, loss)
			fmt.Printf("loss %5.1f, updated %-5v w = %.2f\n", loss.Item(), updated, w.Tensor().At(0))
			return err
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// loss   2.5, updated false w = 0.00
	// loss  12.5, updated false w = 0.00
	// loss  53.0, updated true  w = 4.00
}

// A training that saves after each step, as it is in a first process, and goes on in a second.
func ExampleSave() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "state.safetensors")
	for range 2 {
		if err := process(path); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// step 1: w = 1.50
	// step 2: w = 2.25
	// loaded step 2, exact: true
	// step 3: w = 2.62
	// step 4: w = 2.81
}

// process builds everything, goes on from the file if there is one, and makes two steps.
func process(path string) error {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		return err
	}
	defer dev.Close()
	sess, err := autograd.New(autograd.Config{Device: dev, Seed: 1})
	if err != nil {
		return err
	}
	defer sess.Close()
	w, err := sess.NewParam("w", tensor.Of(tensor.Float64, 1), nil)
	if err != nil {
		return err
	}
	opt, err := optim.NewSGD([]*autograd.Param{w}, optim.SGDConfig{LR: 0.25})
	if err != nil {
		return err
	}
	step := 0
	state := train.State{Model: struct{ W *autograd.Param }{w}, Optimizer: opt, Parts: map[string]train.Part{"step": train.Var(&step)}}

	info, err := train.Load(path, state)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the first time
	case err != nil:
		return err
	default:
		fmt.Printf("loaded step %d, exact: %v\n", step, info.Exact)
	}
	for end := step + 2; step < end; {
		err := sess.Step(context.Background(), func(s *autograd.Scope) error {
			autograd.Apply(s, distance{[]float64{3}}, w.Value()).Backward(s)
			if err := opt.Step(s); err != nil {
				return err
			}
			opt.ZeroGrad(s)
			return nil
		})
		if err != nil {
			return err
		}
		step++
		fmt.Printf("step %d: w = %.2f\n", step, w.Tensor().At(0))
		if err := train.Save(path, state); err != nil {
			return err
		}
	}
	return nil
}
