package nn_test

import (
	"context"
	"fmt"
	"log"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// MLP classifies rows of features. A model is a struct whose exported fields are layers.
type MLP struct {
	Net  nn.Sequential
	Head *nn.Linear
}

// NewMLP makes one: in features, then hidden ones, then classes.
func NewMLP(sess *autograd.Session, in, hidden, classes int) (*MLP, error) {
	fc, err := nn.NewLinear(sess, in, hidden)
	if err != nil {
		return nil, err
	}
	norm, err := nn.NewLayerNorm(sess, hidden)
	if err != nil {
		return nil, err
	}
	head, err := nn.NewLinear(sess, hidden, classes, nn.LinearConfig{NoBias: true})
	if err != nil {
		return nil, err
	}
	return &MLP{Net: nn.Sequential{fc, norm, nn.GELU{}, nn.Dropout{P: 0.1}}, Head: head}, nil
}

// Forward takes x [B in] and gives logits [B classes].
func (m *MLP) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	return s.Do("mlp", func(s *autograd.Scope) *autograd.Value {
		h := m.Net.Forward(s.Named("net"), x)
		return m.Head.Forward(s.Named("head"), h)
	})
}

// session opens a device and a session for an example; done closes both.
func session() (sess *autograd.Session, done func()) {
	dev, err := memory.NewDevice(memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if sess, err = autograd.New(autograd.Config{Device: dev, Seed: 1}); err != nil {
		log.Fatal(err)
	}
	return sess, func() {
		if err := sess.Close(); err != nil {
			log.Fatal(err)
		}
		if err := dev.Close(); err != nil { // says what was not given back
			log.Fatal(err)
		}
	}
}

// A model is a struct. Its parameters are found, named and counted by walking its exported fields.
func Example() {
	sess, done := session()
	defer done()
	model, err := NewMLP(sess, 784, 64, 10)
	if err != nil {
		log.Fatal(err)
	}
	for name, p := range nn.NamedParams(model) {
		fmt.Println(name, p.Spec())
	}
	fmt.Println(nn.NumParams(model), "parameters,", nn.ParamBytes(model), "bytes")

	x, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Float32, 32, 784))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		logits := model.Forward(s.NoGrad().Eval(), s.Input(x))
		fmt.Println("logits", logits.Spec())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// net.0.weight float32[64 784]
	// net.0.bias float32[64]
	// net.1.weight float32[64]
	// net.1.bias float32[64]
	// head.weight float32[10 64]
	// 51008 parameters, 204032 bytes
	// logits float32[32 10]
}

// A wrong shape is reported with the path of the layer that met it.
func ExampleSequential() {
	sess, done := session()
	defer done()
	fc1, err := nn.NewLinear(sess, 4, 8)
	if err != nil {
		log.Fatal(err)
	}
	fc2, err := nn.NewLinear(sess, 16, 2) // 8 would fit
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Sequential{fc1, nn.ReLU{}, fc2}

	x, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Float32, 3, 4))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		net.Forward(s.Named("net"), s.Input(x))
		return nil
	})
	fmt.Println(err)
	// Output:
	// autograd: net/2: linear[float32[3 8] weight:float32[2 16] bias:float32[2]]: want x [... K] and weight [N K]
}

// Loading is strict: it copies everything, or nothing and says what does not match.
func ExampleLoadStateDict() {
	sess, done := session()
	defer done()
	small, err := NewMLP(sess, 4, 8, 2)
	if err != nil {
		log.Fatal(err)
	}
	large, err := NewMLP(sess, 4, 8, 3)
	if err != nil {
		log.Fatal(err)
	}
	sd := nn.StateDict(small)
	fmt.Println(nn.LoadStateDict(large, sd))

	sd = append(sd[1:], nn.Entry{Name: "head.bias", Tensor: large.Net[0].(*nn.Linear).Bias.Tensor()})
	fmt.Println(nn.LoadStateDict(small, sd))
	// Output:
	// nn: LoadStateDict: *nn_test.MLP: nothing loaded: head.weight: got float32[2 8]: want float32[3 8]
	// nn: LoadStateDict: *nn_test.MLP: nothing loaded: 2 names do not match:
	//   unexpected: head.bias float32[8]
	//   missing: net.0.weight float32[8 4]
}

// The values of a state dict are the parameters' own. A clone stays as it is, until it is released.
func ExampleState_Clone() {
	sess, done := session()
	defer done()
	fc, err := nn.NewLinear(sess, 1, 1, nn.LinearConfig{NoBias: true, InitWeight: nn.Constant(1)})
	if err != nil {
		log.Fatal(err)
	}
	best, err := nn.StateDict(fc).Clone()
	if err != nil {
		log.Fatal(err)
	}
	defer best.Release()
	if err := tensor.Fill(fc.Weight.Tensor(), 2); err != nil { // as training would
		log.Fatal(err)
	}
	fmt.Println(nn.StateDict(fc).Get("weight").At(0, 0), best.Get("weight").At(0, 0))
	if err := nn.LoadStateDict(fc, best); err != nil {
		log.Fatal(err)
	}
	fmt.Println(nn.StateDict(fc).Get("weight").At(0, 0))
	// Output:
	// 2 1
	// 1
}

// A frozen layer has no gradient, and its input is not kept for one.
func ExampleSetFrozen() {
	sess, done := session()
	defer done()
	model, err := NewMLP(sess, 4, 8, 2)
	if err != nil {
		log.Fatal(err)
	}
	nn.SetFrozen(model.Net, true)
	for _, p := range nn.Params(model) {
		fmt.Println(p.Name(), p.Spec())
	}
	fmt.Println(len(nn.AllParams(model)), "in all")
	// Output:
	// head.weight float32[2 8]
	// 5 in all
}

// logged tells when its module runs. It is Transparent, so that names are the same with it and without.
type logged struct{ m nn.Module }

func (l logged) Forward(s *autograd.Scope, x *autograd.Value) *autograd.Value {
	fmt.Println("running", s.Path())
	return l.m.Forward(s, x)
}

func (l logged) Unwrap() any { return l.m }

func ExampleTransparent() {
	sess, done := session()
	defer done()
	fc, err := nn.NewLinear(sess, 4, 2, nn.LinearConfig{NoBias: true})
	if err != nil {
		log.Fatal(err)
	}
	net := nn.Sequential{nn.ReLU{}, logged{fc}}
	for name := range nn.NamedParams(net) {
		fmt.Println(name)
	}
	x, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Float32, 3, 4))
	if err != nil {
		log.Fatal(err)
	}
	defer x.Release()
	y, err := tensor.Zeros(sess.Device(), memory.Input, memory.Site{Op: "batch"}, tensor.Of(tensor.Int64, 3))
	if err != nil {
		log.Fatal(err)
	}
	defer y.Release()
	err = sess.Step(context.Background(), func(s *autograd.Scope) error {
		loss := ops.CrossEntropy(s, net.Forward(s, s.Input(x)), s.Input(y))
		fmt.Printf("loss %.3f\n", loss.Item())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1.weight
	// running 1
	// loss 0.693
}

// A model that knows nothing yet goes on behind a prompt.
func ExampleGenerate() {
	sess, done := session()
	defer done()
	model, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: 16, Context: 8, Dim: 8, Heads: 2, Layers: 1})
	if err != nil {
		log.Fatal(err)
	}
	prompt := []int64{3, 1, 4}
	tokens, err := nn.Generate(context.Background(), sess, model, prompt, 6, nn.GenerateConfig{Temperature: 1, TopK: 4, Seed: 1})
	fmt.Println(len(tokens), err)
	_, err = nn.Generate(context.Background(), sess, model, prompt, 7, nn.GenerateConfig{})
	fmt.Println(err)
	// Output:
	// 6 <nil>
	// nn: Generate: 3 tokens of prompt and 7 more: nn: NewCache: the context is full: 9 positions: the model has 8
}

// After each training step the averages follow; they are swapped in to evaluate.
func ExampleEMA() {
	sess, done := session()
	defer done()
	fc, err := nn.NewLinear(sess, 1, 1, nn.LinearConfig{NoBias: true, InitWeight: nn.Constant(0)})
	if err != nil {
		log.Fatal(err)
	}
	ema, err := nn.NewEMA(nn.Params(fc), 0.5)
	if err != nil {
		log.Fatal(err)
	}
	for step := range 3 {
		if err := tensor.Fill(fc.Weight.Tensor(), float64(step+1)); err != nil { // as training would
			log.Fatal(err)
		}
		err := sess.Step(context.Background(), func(s *autograd.Scope) error { ema.Update(s); return nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	for range 2 {
		if err := ema.Swap(); err != nil {
			log.Fatal(err)
		}
		fmt.Println(fc.Weight.Tensor().At(0, 0))
	}
	// Output:
	// 2.125
	// 3
}
