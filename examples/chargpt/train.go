package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/train"
)

// trainer is the model at work.
type trainer struct {
	settings
	text *data.Text

	dev        *memory.Device
	sess       *autograd.Session
	model      *nn.GPT
	opt        *optim.AdamW
	schedule   optim.Schedule
	loader     *data.Loader
	validation *data.Loader
	current    *data.Batch // bytes, and those that follow
	loss       float64     // of the last update
	step       int         // updates so far
	ending     row.Cleanup
}

// run trains and samples; on the way it predicts the peak and measures it.
func run(ctx context.Context, c settings, p *row.Progress, out io.Writer) (f figures, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if t.text, err = gosource.Load(ctx, c.data, c.limit); err != nil {
		return f, err
	}
	if err := t.build(); err != nil {
		return f, err
	}
	f.Name, f.Steps, f.Parameters = "chargpt", c.steps, nn.NumParams(t.model)
	head(out, c, f.Parameters)
	if err := t.resumed(out); err != nil {
		return f, err
	}
	if err := t.train(ctx, &f, p, out); err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	if f.Sample, err = t.write(ctx); err != nil {
		return f, err
	}
	return f, f.Check()
}

// build makes all that lives for the whole training.
func (t *trainer) build() (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.seed, Workers: t.threads}, &t.ending); err != nil {
		return err
	}
	if t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{
		Vocab: data.Vocabulary, Context: t.context, Dim: t.dim, Heads: t.heads, Layers: t.layers, Dropout: t.dropout,
	}); err != nil {
		return err
	}
	t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: t.lr, Betas: optim.Betas(0.9, 0.99), WeightDecay: 0.1})
	if err != nil {
		return err
	}
	rise := max(1, t.steps/20)
	cosine, err := optim.NewCosineAnnealing(t.opt, optim.CosineConfig{TMax: max(1, t.steps-rise), EtaMin: t.lr / 10})
	if err != nil {
		return err
	}
	if t.schedule, err = optim.NewWarmup(t.opt, optim.WarmupConfig{Steps: rise, StartFactor: 0.1}, cosine); err != nil {
		return err
	}
	return t.load()
}

// load makes the loaders. Validation is some batches, always the same, of text that is not trained on.
func (t *trainer) load() (err error) {
	t.loader, _, err = t.loaderOf(t.text.Train, data.LoaderConfig{Batch: t.batch, Shuffle: true, Seed: t.seed, DropLast: true})
	if err != nil {
		return err
	}
	var n int
	some := func(int) []int32 { return data.Shuffle(n, 0, 0)[:min(8, n/t.batch)*t.batch] }
	t.validation, n, err = t.loaderOf(t.text.Test, data.LoaderConfig{Batch: t.batch, Sampler: some})
	return err
}

// loaderOf makes batches of text, and gives the number of its sequences.
func (t *trainer) loaderOf(text []byte, cfg data.LoaderConfig) (*data.Loader, int, error) {
	ds, err := data.Sequences(text, t.context)
	if err != nil {
		return nil, 0, err
	}
	if n := ds.Len(); n < t.batch {
		return nil, 0, fmt.Errorf("chargpt: -batch %d: want at most %d, the sequences of %d bytes in %d bytes of text", t.batch, n, t.context, len(text))
	}
	l, err := data.NewLoader(t.dev, ds, cfg)
	return l, ds.Len(), err
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := t.model.Loss(s, s.Input(t.current.X), s.Input(t.current.Y))
	t.loss = loss.Item()
	loss.Backward(s)
	if _, err := optim.ClipGradNorm(s, t.opt.Params(), 1); err != nil {
		return err
	}
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	return t.schedule.Step()
}

// train runs all steps; ten times on the way it validates.
func (t *trainer) train(ctx context.Context, f *figures, p *row.Progress, out io.Writer) error {
	every := max(1, t.steps/10)
	begin, first, trained, sum, n := time.Now(), t.step, time.Duration(0), 0.0, 0
	p.Start("chargpt", t.steps)
	for t.step < t.steps {
		for batch, err := range t.loader.Epoch(ctx, t.loader.State().Epoch) {
			if err != nil {
				return err
			}
			t.current = batch
			if f.PredictedPeak == nil {
				if err := f.PredictStep(t.sess, t.update); err != nil {
					return err
				}
			}
			start := time.Now()
			if err := t.sess.Step(ctx, t.update); err != nil {
				return err
			}
			trained += time.Since(start)
			t.step++
			sum, n = sum+t.loss, n+1
			p.Step(t.step, t.loss)
			if t.step%every != 0 && t.step != t.steps {
				continue
			}
			validation, err := t.validate(ctx)
			if err != nil {
				return err
			}
			at := point{t.step, row.Num(sum / float64(n)), row.Num(validation), time.Since(begin).Seconds()}
			p.Print(nil) // takes the bar off the line
			line(out, at)
			f.Points = append(f.Points, at)
			f.Loss, sum, n = at.Loss, 0, 0
			if err := t.keep(); err != nil {
				return err
			}
			if t.step == t.steps {
				break
			}
		}
	}
	f.StepMS = row.Num(trained.Seconds() * 1e3 / float64(t.steps-first))
	return nil
}

// state is all that the training is.
func (t *trainer) state() train.State {
	return train.State{
		Model: t.model, Optimizer: t.opt, Schedule: t.schedule, Loader: t.loader,
		Parts: map[string]train.Part{"step": train.Var(&t.step)},
	}
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
	switch {
	case err != nil:
		return err
	case t.step >= t.steps:
		return fmt.Errorf("chargpt: the training in %s has had its %d updates: want more with -steps, from the start", t.save, t.step)
	}
	fmt.Fprintf(out, "%5d  %s\n", t.step, info)
	return nil
}

// validate is the mean loss over the validation batches.
func (t *trainer) validate(ctx context.Context) (mean float64, err error) {
	n := 0
	for batch, err := range t.validation.Epoch(ctx, 0) {
		if err != nil {
			return 0, err
		}
		err := t.sess.Step(ctx, func(s *autograd.Scope) error {
			mean += t.model.Loss(s.NoGrad().Eval(), s.Input(batch.X), s.Input(batch.Y)).Item()
			return nil
		})
		if err != nil {
			return 0, err
		}
		n++
	}
	return mean / float64(n), nil
}
