package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// way is a training.
type way struct {
	name     string
	pretrain bool // upright digits, and its weights are kept
	scratch  bool // from random weights
	sgd      bool
}

func (w way) String() string { return w.name }

// ways are the rows.
var ways = []way{
	{name: "pretrain", pretrain: true, scratch: true},
	{name: "adamw"},
	{name: "sgd-cosine", sgd: true},
	{name: "sgd-alone", sgd: true, scratch: true},
}

// settings are what a row is made of; the child process gets them as JSON.
type settings struct {
	Way                     string
	Data                    string
	Weights                 string // file that pretrain writes and the others read
	Pretrain, Images, Tests int    // images
	Epochs, Batch, Dim      int
	AdamWLR, SGDLR          float64
	Seed                    uint64
	Threads                 int
}

// trainer is a row at work.
type trainer struct {
	settings
	way way

	dev    *memory.Device
	sess   *autograd.Session
	model  *nn.ViT
	opt    optim.Optimizer
	cosine *optim.CosineAnnealing // nil: the rate stays
	train  *data.Loader
	tests  *data.Loader
	batch  *data.Batch // at hand
	loss   float64
	ending row.Cleanup
}

// run predicts the peak, trains, tests after each epoch, and measures.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if t.way, err = row.Find("finetune: row", c.Way, ways); err != nil {
		return f, err
	}
	if t.way.pretrain {
		t.Epochs = 1
	}
	train, test, err := t.digits(ctx)
	if err != nil {
		return f, err
	}
	meter := row.StartResident()
	if err := t.build(train, test); err != nil {
		return f, err
	}
	if err := t.fit(ctx, &f, train.N/t.Batch, p); err != nil {
		return f, err
	}
	f.Name, f.RSS, f.Loss = c.Way, meter.Peak(), row.Num(t.loss)
	f.State = t.dev.Stats().LiveByKind[memory.OptState]
	f.Accuracy = f.Epochs[len(f.Epochs)-1]
	if t.way.pretrain {
		err = nn.SaveSafetensors(t.Weights, t.model, nil)
	}
	return f, err
}

// digits are the images of this row: the first ones upright to pre-train on, the ones behind them turned.
func (t *trainer) digits(ctx context.Context) (train, test *data.Images, err error) {
	if train, test, err = mnist.Load(ctx, t.Data); err != nil {
		return nil, nil, err
	}
	switch {
	case train.H != train.W || train.H%7 != 0:
		return nil, nil, fmt.Errorf("finetune: images of %d x %d: want square ones, of a multiple of 7 pixels", train.H, train.W)
	case t.Pretrain+t.Images > train.N || t.Tests > test.N:
		return nil, nil, fmt.Errorf("finetune: pretrain %d, images %d, tests %d: the data has %d images, and %d to test on", t.Pretrain, t.Images, t.Tests, train.N, test.N)
	}
	if test = mnist.Part(test, 0, t.Tests); t.way.pretrain {
		return mnist.Part(train, 0, t.Pretrain), test, nil
	}
	return turned(mnist.Part(train, t.Pretrain, t.Images)), turned(test), nil
}

// turned are the images turned by a quarter, counterclockwise.
func turned(im *data.Images) *data.Images {
	other, n := *im, im.W
	other.X = make([]byte, len(im.X))
	for at := 0; at < len(im.X); at += n * n {
		for y := range n {
			for x := range n {
				other.X[at+(n-1-x)*n+y] = im.X[at+y*n+x]
			}
		}
	}
	return &other
}

// build makes all that lives for the whole training.
func (t *trainer) build(train, test *data.Images) (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	t.model, err = nn.NewViT(t.sess, nn.ViTConfig{Image: train.H, Patch: 7, Channels: 1, Dim: t.Dim, Heads: 4, Layers: 4, Classes: train.Classes})
	if err != nil {
		return err
	}
	if err := t.start(); err != nil {
		return err
	}
	if err := t.optimizer(t.Epochs * (train.N / t.Batch)); err != nil {
		return err
	}
	norm := train.Norm()
	if t.train, err = mnist.Loader(t.dev, train, norm, data.LoaderConfig{Batch: t.Batch, Shuffle: true, Seed: t.Seed, DropLast: true}); err != nil {
		return err
	}
	t.tests, err = mnist.Loader(t.dev, test, norm, data.LoaderConfig{Batch: t.Batch})
	return err
}

// start reads the weights of pretrain, and makes the head anew: its classes are those of another task.
func (t *trainer) start() error {
	if t.way.scratch {
		return nil
	}
	if err := nn.LoadSafetensors(t.Weights, t.model, nn.LoadConfig{}); err != nil {
		return err
	}
	return errors.Join(tensor.Fill(t.model.Head.Weight.Tensor(), 0), tensor.Fill(t.model.Head.Bias.Tensor(), 0))
}

func (t *trainer) optimizer(updates int) (err error) {
	if !t.way.sgd {
		t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: t.AdamWLR, WeightDecay: 0.01})
		return err
	}
	sgd, err := optim.NewSGD(nn.Params(t.model), optim.SGDConfig{LR: t.SGDLR})
	if err != nil {
		return err
	}
	t.opt = sgd
	t.cosine, err = optim.NewCosineAnnealing(sgd, optim.CosineConfig{TMax: updates})
	return err
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := t.model.Loss(s, s.Input(t.batch.X), s.Input(t.batch.Y))
	t.loss = loss.Item()
	loss.Backward(s)
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	return nil
}

// fit trains for all epochs, the first update dry before it is real.
func (t *trainer) fit(ctx context.Context, f *figures, steps int, p *row.Progress) error {
	p.Start(t.Way, t.Epochs*steps)
	var times row.Times
	for n := range t.Epochs {
		for batch, err := range t.train.Epoch(ctx, n) {
			if err != nil {
				return err
			}
			if t.batch = batch; f.Steps == 0 {
				if err := f.PredictStep(t.sess, t.update); err != nil {
					return err
				}
			}
			start := time.Now()
			if err := t.sess.Step(ctx, t.update); err != nil {
				return err
			}
			times.Since(start)
			if t.cosine != nil {
				if err := t.cosine.Step(); err != nil {
					return err
				}
			}
			f.Steps++
			p.Step(f.Steps, t.loss)
		}
		f.Measure(t.dev.Stats()) // of the training, not of the tests
		accuracy, err := mnist.Accuracy(ctx, t.sess, t.tests, t.model.Forward)
		if err != nil {
			return err
		}
		f.Epochs = append(f.Epochs, row.Num(accuracy))
	}
	f.StepMS = times.Median()
	return nil
}
