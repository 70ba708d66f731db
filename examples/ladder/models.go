package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/tensor"
)

// problem is a model with its data.
type problem struct {
	batch int     // examples an update, unless -batch says otherwise
	lr    float64 // of AdamW
	sgdLR float64
	train data.Dataset
	test  data.Dataset // nil: there is no accuracy
	build func(*autograd.Session, tensor.DType) (model any, forward nn.Forward, err error)
	steps int // updates of a whole training, unless -steps or -epochs says otherwise
}

// models are the values of -model, the default first; titles say what they are.
var (
	models = []string{"vit", "mlp", "gpt"}
	titles = map[string]string{
		"vit": "ViT on MNIST, 6 blocks of 32 channels",
		"mlp": "MLP on MNIST",
		"gpt": "GPT on Go source, 4 blocks of 64 channels",
	}
)

// open reads the data of a model.
func open(ctx context.Context, c settings) (*problem, error) {
	switch c.Model {
	case "vit":
		return images(ctx, c, viTProblem)
	case "mlp":
		return images(ctx, c, mlpProblem)
	case "gpt":
		return text(ctx, c)
	}
	return nil, fmt.Errorf("ladder: model %q: want one of %s", c.Model, strings.Join(models, ", "))
}

// images is a problem on MNIST or another set of the same form.
func images(ctx context.Context, c settings, of func(c settings, train *data.Images) (p *problem, shape []int)) (*problem, error) {
	train, test, err := mnist.Load(ctx, c.Data)
	if err != nil {
		return nil, err
	}
	norm := train.Norm()
	p, shape := of(c, train)
	if p.train, err = train.Dataset(norm, shape...); err != nil {
		return nil, err
	}
	p.test, err = test.Dataset(norm, shape...)
	return p, err
}

// mlpProblem takes images as rows of pixels: in -> hidden -> ReLU -> hidden -> ReLU -> out.
func mlpProblem(c settings, train *data.Images) (*problem, []int) {
	pixels := train.H * train.W
	return &problem{
		batch: 1024, lr: 2e-3, sgdLR: 0.5, steps: 180,
		build: func(sess *autograd.Session, dt tensor.DType) (any, nn.Forward, error) {
			var net nn.Sequential
			in := pixels
			for i, width := range []int{c.Hidden, c.Hidden, train.Classes} {
				if i > 0 {
					net = append(net, nn.ReLU{})
				}
				fc, err := nn.NewLinear(sess, in, width, nn.LinearConfig{DType: dt})
				if err != nil {
					return nil, nil, err
				}
				net, in = append(net, fc), width
			}
			return net, net.Forward, nil
		},
	}, []int{pixels}
}

// viTProblem is a vision transformer so narrow that its activations are most of its peak.
func viTProblem(_ settings, train *data.Images) (*problem, []int) {
	return &problem{
		batch: 128, lr: 2e-3, sgdLR: 0.1, steps: 200,
		build: func(sess *autograd.Session, dt tensor.DType) (any, nn.Forward, error) {
			m, err := nn.NewViT(sess, nn.ViTConfig{Image: train.H, Patch: train.H / 4, Channels: 1, Dim: 32, Heads: 2, Layers: 6, Classes: train.Classes, DType: dt})
			if err != nil {
				return nil, nil, err
			}
			return m, m.Forward, nil
		},
	}, []int{1, train.H, train.W}
}

// text is a small GPT on bytes of Go source.
func text(ctx context.Context, c settings) (*problem, error) {
	const context = 64
	corpus, err := gosource.Load(ctx, c.Data, 4<<20)
	if err != nil {
		return nil, err
	}
	sequences, err := data.Sequences(corpus.Train, context)
	if err != nil {
		return nil, err
	}
	return &problem{
		batch: 32, lr: 2e-3, sgdLR: 0.1, steps: 300, train: sequences,
		build: func(sess *autograd.Session, dt tensor.DType) (any, nn.Forward, error) {
			m, err := nn.NewGPT(sess, nn.GPTConfig{Vocab: data.Vocabulary, Context: context, Dim: 64, Heads: 4, Layers: 4, DType: dt})
			if err != nil {
				return nil, nil, err
			}
			return m, m.Forward, nil
		},
	}, nil
}
