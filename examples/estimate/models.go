package main

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// model is how to build one.
type model struct {
	context int     // default of -seq, and the longest; 0: takes no sequences
	endless bool    // rotary positions: sequences may be longer than context
	round   float64 // parameters as its name has them; 0: as they are counted
	build   func(sess *autograd.Session, c settings) (task, error)
}

// task is a model and what it trains on.
type task struct {
	module any // what nn.Params walks
	x, y   tensor.Spec
	loss   func(s *autograd.Scope, x, y *autograd.Value) *autograd.Value
}

var models = []named[model]{
	{"llama7b", model{context: 2048, endless: true, round: 7e9, build: llama}},
	{"gpt2", gpt(nn.GPTConfig{Vocab: 50257, Context: 1024, Dim: 768, Heads: 12, Layers: 12})},
	{"gpt2-medium", gpt(nn.GPTConfig{Vocab: 50257, Context: 1024, Dim: 1024, Heads: 16, Layers: 24})},
	{"babygpt", gpt(nn.GPTConfig{Vocab: 256, Context: 256, Dim: 384, Heads: 6, Layers: 6})}, // nanoGPT's, on bytes
	{"vitl16", model{build: vit}},
	{"mlp", model{build: mlp}},
}

// tokens are batch sequences, and the token after each of theirs.
func tokens(c settings) (x, y tensor.Spec) {
	spec := tensor.Of(tensor.Int64, c.batch, c.seq)
	return spec, spec
}

func llama(sess *autograd.Session, c settings) (task, error) {
	m, err := nn.NewLlama(sess, nn.Llama7B)
	if err != nil {
		return task{}, err
	}
	x, y := tokens(c)
	return task{m, x, y, m.Loss}, nil
}

func gpt(cfg nn.GPTConfig) model {
	return model{context: cfg.Context, build: func(sess *autograd.Session, c settings) (task, error) {
		m, err := nn.NewGPT(sess, cfg)
		if err != nil {
			return task{}, err
		}
		x, y := tokens(c)
		return task{m, x, y, m.Loss}, nil
	}}
}

func vit(sess *autograd.Session, c settings) (task, error) {
	m, err := nn.NewViT(sess, nn.ViTConfig{Image: 224, Patch: 16, Dim: 1024, Heads: 16, Layers: 24, Hidden: 4096, Classes: 10})
	if err != nil {
		return task{}, err
	}
	return task{m, tensor.Of(tensor.Float32, c.batch, 3, 224, 224), tensor.Of(tensor.Int64, c.batch), m.Loss}, nil
}

// mlp is that of examples/ladder.
func mlp(sess *autograd.Session, c settings) (task, error) {
	var net nn.Sequential
	in := 28 * 28
	for i, width := range []int{512, 512, 10} {
		if i > 0 {
			net = append(net, nn.ReLU{})
		}
		fc, err := nn.NewLinear(sess, in, width)
		if err != nil {
			return task{}, err
		}
		net, in = append(net, fc), width
	}
	loss := func(s *autograd.Scope, x, y *autograd.Value) *autograd.Value {
		return s.Do("loss", func(s *autograd.Scope) *autograd.Value { return ops.CrossEntropy(s, net.Forward(s, x), y) })
	}
	return task{net, tensor.Of(tensor.Float32, c.batch, 28*28), tensor.Of(tensor.Int64, c.batch), loss}, nil
}

// sequence fixes the length of a sequence.
func (c *settings) sequence(m named[model]) error {
	switch longest := m.make.context; {
	case longest == 0 && c.seq > 0:
		return fmt.Errorf("estimate: seq %d: want none, %s takes no sequences", c.seq, m.name)
	case c.seq > longest && !m.make.endless:
		return fmt.Errorf("estimate: seq %d: want at most %d, the context of %s", c.seq, longest, m.name)
	case c.seq == 0:
		c.seq = longest
	}
	return nil
}

type maker = func([]*autograd.Param) (optim.Optimizer, error)

// optimizers: rates and decays take no memory, so any will do.
var optimizers = []named[maker]{
	{"adamw", func(p []*autograd.Param) (optim.Optimizer, error) {
		return optim.NewAdamW(p, optim.AdamWConfig{LR: 1e-3})
	}},
	{"adam", func(p []*autograd.Param) (optim.Optimizer, error) {
		return optim.NewAdam(p, optim.AdamConfig{LR: 1e-3})
	}},
	{"sgd", func(p []*autograd.Param) (optim.Optimizer, error) { return optim.NewSGD(p, optim.SGDConfig{LR: 1e-3}) }},
	{"sgd-momentum", func(p []*autograd.Param) (optim.Optimizer, error) {
		return optim.NewSGD(p, optim.SGDConfig{LR: 1e-3, Momentum: 0.9})
	}},
	{"adafactor", func(p []*autograd.Param) (optim.Optimizer, error) {
		return optim.NewAdafactor(p, optim.AdafactorConfig{LR: 1e-2})
	}},
	{"lion", func(p []*autograd.Param) (optim.Optimizer, error) {
		return optim.NewLion(p, optim.LionConfig{LR: 1e-4})
	}},
}
