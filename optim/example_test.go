package optim_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// lineError is the mean of (a x + b - y)^2 over some points, for w = (a, b). Package ops has ready ones.
type lineError struct{ x, y []float64 }

var lineRule = &autograd.Rule{Name: "lineerror", Reads: [][]autograd.Ref{{autograd.In(0)}}}

func (lineError) Rule() *autograd.Rule { return lineRule }

func (lineError) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Add(in[0].DType)
	return nil
}

func (l lineError) Forward(f *autograd.Fwd) {
	w, sum := tensor.Data[float64](&f.In[0]), 0.0
	for i, x := range l.x {
		e := w[0]*x + w[1] - l.y[i]
		sum += e * e
	}
	tensor.Data[float64](&f.Out[0])[0] = sum / float64(len(l.x))
}

func (l lineError) Backward(b *autograd.Bwd) {
	w, g := tensor.Data[float64](b.In(0)), tensor.Data[float64](b.Grad(0))[0]
	dst, add := b.Into(0)
	d := tensor.Data[float64](dst)
	if !add {
		clear(d)
	}
	for i, x := range l.x {
		e := 2 * g * (w[0]*x + w[1] - l.y[i]) / float64(len(l.x))
		d[0] += e * x
		d[1] += e
	}
}

// A line through four points: AdamW, with the gradient clipped and the learning rate lowered along a cosine.
func Example() {
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
	w, err := sess.NewParam("w", tensor.Of(tensor.Float64, 2), nil)
	if err != nil {
		log.Fatal(err)
	}
	opt, err := optim.NewAdamW([]*autograd.Param{w}, optim.AdamWConfig{LR: 0.3})
	if err != nil {
		log.Fatal(err)
	}
	sched, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: 200})
	if err != nil {
		log.Fatal(err)
	}

	points := lineError{x: []float64{-1, 0, 1, 2}, y: []float64{-3, -1, 1, 3}}
	step := func(s *autograd.Scope) error {
		loss := autograd.Apply(s, points, w.Value())
		loss.Backward(s)
		if _, err := optim.ClipGradNorm(s, opt.Params(), 1); err != nil {
			return err
		}
		if err := opt.Step(s); err != nil {
			return err
		}
		opt.ZeroGrad(s)
		return sched.Step()
	}
	plan, err := sess.Plan(step, autograd.PlanConfig{})
	if err != nil {
		log.Fatal(err)
	}
	for range 200 {
		if err := sess.Step(context.Background(), step); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("y = %.3f x %+.3f\n", w.Tensor().At(0), w.Tensor().At(1))
	fmt.Println("bytes of optimizer state:", dev.Stats().LiveByKind[memory.OptState])
	fmt.Println("peak, planned and measured:", plan.Peak(), dev.Stats().Peak)
	// Output:
	// y = 2.000 x -1.000
	// bytes of optimizer state: 32
	// peak, planned and measured: 80 80
}
