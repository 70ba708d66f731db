package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	images "github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/train"
)

// trainer is the network at work.
type trainer struct {
	settings
	train, test *data.Images

	dev     *memory.Device
	sess    *autograd.Session
	model   nn.Sequential
	opt     *optim.AdamW
	loader  *data.Loader
	tests   *data.Loader
	current *data.Batch // at work
	loss    float64     // of the last update
	figures *figures
	ending  row.Cleanup
}

// run predicts the peak, trains, tests after each epoch, and measures.
func run(ctx context.Context, c settings, p *row.Progress, out io.Writer) (f figures, err error) {
	t := &trainer{settings: c, figures: &f}
	defer t.ending.Run(&err)
	if err := t.load(ctx); err != nil {
		return f, err
	}
	if err := t.build(); err != nil {
		return f, err
	}
	f.Name, f.Parameters = "mnist", nn.NumParams(t.model)

	head(out, c, f.Parameters)
	if err := t.resumed(out); err != nil {
		return f, err
	}
	var trained time.Duration
	for n := t.loader.State().Epoch; n < c.epochs; n++ {
		start := time.Now()
		loss, err := t.epoch(ctx, n, p)
		if err != nil {
			return f, err
		}
		trained += time.Since(start)
		accuracy, err := images.Accuracy(ctx, t.sess, t.tests, t.model.Forward)
		if err != nil {
			return f, err
		}
		e := epoch{n + 1, row.Num(loss), row.Num(accuracy), time.Since(start).Seconds()}
		p.Print(nil) // takes the bar off the line
		line(out, e)
		f.Epochs = append(f.Epochs, e)
		f.Loss, f.Accuracy = e.Loss, e.Accuracy
		if err := t.keep(); err != nil {
			return f, err
		}
	}
	f.Measure(t.dev.Stats())
	f.Steps = len(f.Epochs) * (t.train.N / c.batch)
	f.StepMS = row.Num(trained.Seconds() * 1e3 / float64(f.Steps))
	return f, f.Check()
}

func (t *trainer) load(ctx context.Context) (err error) {
	if t.train, t.test, err = images.Load(ctx, t.data); err != nil {
		return err
	}
	if t.limit > 0 {
		t.train, t.test = images.Part(t.train, 0, min(t.limit, t.train.N)), images.Part(t.test, 0, min(t.limit, t.test.N))
	}
	if t.batch > t.train.N {
		return fmt.Errorf("mnist: -batch %d: want at most %d, the images of the training set", t.batch, t.train.N)
	}
	return nil
}

// build makes all that lives for the whole training.
func (t *trainer) build() (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.seed, Workers: t.threads}, &t.ending); err != nil {
		return err
	}
	h, w := t.train.H, t.train.W
	if t.model, err = nn.NewConvNet(t.sess, nn.ConvNetConfig{Height: h, Width: w, Classes: t.train.Classes}); err != nil {
		return err
	}
	if t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: t.lr, WeightDecay: 0.01}); err != nil {
		return err
	}
	norm := t.train.Norm()
	if t.loader, err = images.Loader(t.dev, t.train, norm, data.LoaderConfig{Batch: t.batch, Shuffle: true, Seed: t.seed, DropLast: true}); err != nil {
		return err
	}
	t.tests, err = images.Loader(t.dev, t.test, norm, data.LoaderConfig{Batch: t.batch})
	return err
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, t.model.Forward(s, s.Input(t.current.X)), s.Input(t.current.Y))
	})
	t.loss = loss.Item()
	loss.Backward(s)
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	return nil
}

// state is all that the training is.
func (t *trainer) state() train.State {
	return train.State{Model: t.model, Optimizer: t.opt, Loader: t.loader}
}

// keep saves it, if that was asked for.
func (t *trainer) keep() error {
	if t.save == "" {
		return nil
	}
	return train.Save(t.save, t.state())
}

// resumed goes on from a saved training, if that was asked for.
func (t *trainer) resumed(out io.Writer) error {
	if !t.resume {
		return nil
	}
	info, err := train.Load(t.save, t.state())
	if err != nil {
		return err
	}
	done := t.loader.State().Epoch
	if done >= t.epochs {
		return fmt.Errorf("mnist: the training in %s has had %d epochs: want more with -epochs", t.save, done)
	}
	fmt.Fprintf(out, "%5d  %s\n", done, info)
	return nil
}

// epoch goes through the training set in the order of epoch n, without the rest that fills no batch, and gives the mean
// loss.
func (t *trainer) epoch(ctx context.Context, n int, p *row.Progress) (mean float64, err error) {
	steps := t.train.N / t.batch
	p.Start(fmt.Sprintf("epoch %d", n+1), steps)
	for batch, err := range t.loader.Epoch(ctx, n) {
		if err != nil {
			return 0, err
		}
		t.current = batch
		if t.figures.PredictedPeak == nil {
			if err := t.figures.PredictStep(t.sess, t.update); err != nil {
				return 0, err
			}
		}
		if err := t.sess.Step(ctx, t.update); err != nil {
			return 0, err
		}
		mean += t.loss / float64(steps)
		p.Step(batch.Index+1, t.loss)
	}
	return mean, nil
}
