package gradcheck_test

import (
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/autograd/gradcheck"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/tensor"
)

// cubeOp is y = x*x*x; wrong makes its gradient 2 g x x.
type cubeOp struct{ wrong bool }

var cubeRule = &autograd.Rule{Name: "cube", Reads: [][]autograd.Ref{{autograd.In(0)}}}

func (cubeOp) Rule() *autograd.Rule { return cubeRule }

func (cubeOp) Infer(in []tensor.Spec, sh *autograd.Shapes) error {
	sh.Like(in[0])
	return nil
}

func (cubeOp) Forward(f *autograd.Fwd) {
	y := tensor.Data[float64](&f.Out[0])
	for i, x := range tensor.Data[float64](&f.In[0]) {
		y[i] = x * x * x
	}
}

func (o cubeOp) Backward(b *autograd.Bwd) {
	k := 3.0
	if o.wrong {
		k = 2
	}
	dst, add := b.Into(0)
	d, g := tensor.Data[float64](dst), tensor.Data[float64](b.Grad(0))
	for i, x := range tensor.Data[float64](b.In(0)) {
		if !add {
			d[i] = 0
		}
		d[i] += k * g[i] * x * x
	}
}

func ExampleCheck() {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	sess, err := autograd.New(autograd.Config{Device: dev})
	if err != nil {
		log.Fatal(err)
	}
	x, err := tensor.From(dev, memory.Input, memory.Site{}, []float64{-1, 0.5, 2}, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, op := range []cubeOp{{}, {wrong: true}} {
		f := func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value {
			return []*autograd.Value{autograd.Apply(s, op, in[0])}
		}
		fmt.Println(gradcheck.Check(sess, f, []*tensor.Tensor{x}, gradcheck.Config{Step: 1e-5}) == nil)
	}
	// Output:
	// true
	// false
}
