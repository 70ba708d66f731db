package main

import (
	"cmp"
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// benchModel is one of the models that are timed. FLOP are 2 times the multiply-adds of its matrix products, attention
// over the whole square, as the other side computes it.
type benchModel struct {
	name  string
	batch int     // unless -batch says otherwise
	unit  string  // what a rate counts
	units int     // of them an example has
	flop  float64 // of one unit in training: forward, and backward where a gradient is wanted
	infer float64 // of one unit in the forward pass alone

	x, y    []int // shape of one example of the input and of the target
	ids     int   // the input is ids below this; 0: numbers of the normal distribution
	classes int   // the target is ids below this
	build   func(*autograd.Session) (lossModel, error)

	gpt    nn.GPTConfig // of the GPTs, whose size can be changed
	blocks bool         // the model is a chain of them
}

func (m *benchModel) String() string { return m.name }

// lossModel is a model that knows its loss.
type lossModel interface {
	Loss(s *autograd.Scope, x, y *autograd.Value) *autograd.Value
}

var models = []*benchModel{
	gptModel("babygpt", 8, sequence, nn.GPTConfig{Vocab: 65, Context: sequence, Dim: 384, Heads: 6, Layers: 6}),
	gptModel("gpt2", 1, sequence, nn.GPTConfig{Vocab: 50257, Context: 1024, Dim: 768, Heads: 12, Layers: 12}),
	{
		name: "mlp", batch: 128, unit: "img", units: 1, flop: 3*mlpFLOP - 2*784*512, infer: mlpFLOP,
		x: []int{784}, classes: 10, build: newMLP,
	},
	{
		name: "cnn", batch: 64, unit: "img", units: 1, flop: 3*cnnFLOP - 2*26*26*32*9, infer: cnnFLOP,
		x: []int{1, 28, 28}, classes: 10, build: newCNN,
	},
	{
		name: "vit", batch: 64, unit: "img", units: 1, flop: 3*vitFLOP - 2*64*192*48, infer: vitFLOP,
		x: []int{3, 32, 32}, classes: 10, build: newViT, blocks: true,
	},
}

// sequence is the length of the sequences of the GPTs, in tokens.
const sequence = 256

const (
	mlpFLOP = 2 * (784*512 + 512*512 + 512*10)
	cnnFLOP = 2 * (26*26*32*9 + 24*24*64*288 + 9216*128 + 128*10)
	vitFLOP = 2 * (64*192*48 + 6*(65*12*192*192+2*65*65*192) + 192*10)
)

func gptModel(name string, batch, tokens int, cfg nn.GPTConfig) *benchModel {
	c, l := cfg.Dim, cfg.Layers
	flop := 2 * float64(l*(12*c*c+2*tokens*c)+cfg.Vocab*c)
	return &benchModel{
		gpt: cfg, blocks: true, name: name, batch: batch, unit: "tok", units: tokens, flop: 3 * flop, infer: flop,
		x: []int{tokens}, y: []int{tokens}, ids: cfg.Vocab, classes: cfg.Vocab,
		build: func(sess *autograd.Session) (lossModel, error) { return nn.NewGPT(sess, cfg) },
	}
}

// sized is m with another number of layers and tokens; 0 leaves one as it is.
func (m *benchModel) sized(layers, tokens int) (*benchModel, error) {
	if layers == 0 && tokens == 0 {
		return m, nil
	}
	cfg := m.gpt
	if cfg.Layers == 0 {
		return nil, fmt.Errorf("bench: -layers %d, -tokens %d with -model %s: want a GPT", layers, tokens, m.name)
	}
	cfg.Layers, tokens = cmp.Or(layers, cfg.Layers), cmp.Or(tokens, m.units)
	cfg.Context = max(cfg.Context, tokens)
	return gptModel(m.name, m.batch, tokens, cfg), nil
}

func newViT(sess *autograd.Session) (lossModel, error) {
	return nn.NewViT(sess, nn.ViTConfig{Image: 32, Patch: 4, Channels: 3, Dim: 192, Heads: 3, Layers: 6, Classes: 10})
}

// recompute has each block of a model keep its input alone.
func recompute(net lossModel) {
	switch m := net.(type) {
	case *nn.GPT:
		m.Chain = checkpoint.Chain(checkpoint.PerBlock)
	case *nn.ViT:
		m.Chain = checkpoint.Chain(checkpoint.PerBlock)
	}
}

// newMLP is 784 -> 512 -> ReLU -> 512 -> ReLU -> 10.
func newMLP(sess *autograd.Session) (lossModel, error) {
	b := layers{sess: sess}
	return classifier{nn.Sequential{b.linear(784, 512), nn.ReLU{}, b.linear(512, 512), nn.ReLU{}, b.linear(512, 10)}}, b.err
}

// newCNN is two convolutions of 3 x 3 without padding, 2 x 2 max pooling, and two linear layers.
func newCNN(sess *autograd.Session) (lossModel, error) {
	b := layers{sess: sess}
	return classifier{nn.Sequential{
		b.conv(1, 32), nn.ReLU{}, b.conv(32, 64), nn.ReLU{}, nn.MaxPool2D{Size: 2},
		nn.Flatten{}, b.linear(9216, 128), nn.ReLU{}, b.linear(128, 10),
	}}, b.err
}

// layers makes layers and keeps the first error.
type layers struct {
	sess *autograd.Session
	err  error
}

func (b *layers) linear(in, out int) *nn.Linear {
	if b.err != nil {
		return nil
	}
	var l *nn.Linear
	l, b.err = nn.NewLinear(b.sess, in, out)
	return l
}

func (b *layers) conv(in, out int) *nn.Conv2D {
	if b.err != nil {
		return nil
	}
	var l *nn.Conv2D
	l, b.err = nn.NewConv2D(b.sess, in, out, 3)
	return l
}

// classifier is a net with the cross-entropy of its logits.
type classifier struct{ nn.Sequential }

// Loss is the mean cross-entropy of the logits for x against the classes y.
func (c classifier) Loss(s *autograd.Scope, x, y *autograd.Value) *autograd.Value {
	return s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, c.Forward(s, x), y)
	})
}

// inputs are the specs of a batch.
func (m *benchModel) inputs(batch int) (x, y tensor.Spec) {
	dt := tensor.Float32
	if m.ids > 0 {
		dt = tensor.Int64
	}
	return tensor.Of(dt, append([]int{batch}, m.x...)...), tensor.Of(tensor.Int64, append([]int{batch}, m.y...)...)
}
