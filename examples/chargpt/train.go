package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// trainer is the model at work.
type trainer struct {
	settings
	text *data.Text

	dev      *memory.Device
	sess     *autograd.Session
	model    *nn.GPT
	opt      *optim.AdamW
	schedule optim.Schedule
	x, y     *tensor.Tensor // one batch: bytes, and those that follow
	loss     float64        // of the last update

	order []int32 // of the epoch
	epoch int
}

// run predicts the peak, trains, measures, and samples.
func run(ctx context.Context, c settings, p *row.Progress, out io.Writer) (f figures, err error) {
	t := &trainer{settings: c, epoch: -1}
	if err := t.load(ctx); err != nil {
		return f, err
	}
	if err := t.build(); err != nil {
		return f, err
	}
	f.Name, f.Steps, f.Parameters = "chargpt", c.steps, nn.NumParams(t.model)

	plan, err := t.sess.Plan(t.update, autograd.PlanConfig{})
	if err != nil {
		return f, err
	}
	worst := slices.MaxFunc(plan.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	f.Predict(plan.Peak(), plan.Arena(), worst.ByKind)

	t.dev.ResetPeak()
	head(out, c, f.Parameters)
	if err := t.train(ctx, &f, p, out); err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	if f.Sample, err = t.write(ctx); err != nil {
		return f, err
	}
	return f, errors.Join(f.Check(), t.close())
}

func (t *trainer) load(ctx context.Context) (err error) {
	if t.text, err = gosource.Load(ctx, t.data, t.limit); err != nil {
		return err
	}
	for _, part := range [][]byte{t.text.Train, t.text.Test} {
		if n := data.Windows(part, t.context); n < t.batch {
			return fmt.Errorf("chargpt: batch %d: want at most %d, the sequences of %d bytes in %d bytes of text", t.batch, n, t.context, len(part))
		}
	}
	return nil
}

// build makes all that lives for the whole training.
func (t *trainer) build() (err error) {
	if t.dev, err = memory.NewDevice(memory.Config{}); err != nil {
		return err
	}
	if t.sess, err = autograd.New(autograd.Config{Device: t.dev, Seed: t.seed, Workers: t.threads}); err != nil {
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
	site, spec := memory.Site{Op: "batch"}, tensor.Of(tensor.Int64, t.batch, t.context)
	if t.x, err = tensor.New(t.dev, memory.Input, site, spec); err != nil {
		return err
	}
	t.y, err = tensor.New(t.dev, memory.Input, site, spec)
	return err
}

// close gives all back; what is still alive then is a leak, and an error.
func (t *trainer) close() error {
	t.x.Release()
	t.y.Release()
	return errors.Join(t.sess.Close(), t.dev.Close())
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := t.model.Loss(s, s.Input(t.x), s.Input(t.y))
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
	begin, trained, sum, n := time.Now(), time.Duration(0), 0.0, 0
	p.Start("chargpt", t.steps)
	for i := range t.steps {
		start := time.Now()
		if err := t.fill(t.text.Train, t.batchOf(i)); err != nil {
			return err
		}
		if err := t.sess.Step(ctx, t.update); err != nil {
			return err
		}
		trained += time.Since(start)
		sum, n = sum+t.loss, n+1
		p.Step(i+1, t.loss)
		if (i+1)%every != 0 && i+1 != t.steps {
			continue
		}
		validation, err := t.validate(ctx)
		if err != nil {
			return err
		}
		at := point{i + 1, row.Num(sum / float64(n)), row.Num(validation), time.Since(begin).Seconds()}
		p.Print(nil) // takes the bar off the line
		line(out, at)
		f.Points = append(f.Points, at)
		f.Loss, sum, n = at.Loss, 0, 0
	}
	f.StepMS = row.Num(trained.Seconds() * 1e3 / float64(t.steps))
	return nil
}

// batchOf is the sequences of step i, in the order of its epoch.
func (t *trainer) batchOf(i int) []int32 {
	n := data.Windows(t.text.Train, t.context)
	each := n / t.batch
	if epoch := i / each; epoch != t.epoch {
		t.epoch, t.order = epoch, data.Shuffle(n, t.seed, uint64(epoch))
	}
	return t.order[i%each*t.batch:][:t.batch]
}

// fill reads the sequences that idx names into the batch.
func (t *trainer) fill(from []byte, idx []int32) error {
	t.x.Bump()
	t.y.Bump()
	return data.Sequences(from, t.context, idx, tensor.Data[int64](t.x), tensor.Data[int64](t.y))
}

// validate is the mean loss over some batches, always the same, of text that is not trained on.
func (t *trainer) validate(ctx context.Context) (mean float64, err error) {
	n := data.Windows(t.text.Test, t.context)
	batches := min(8, n/t.batch)
	order := data.Shuffle(n, 0, 0)
	for i := range batches {
		if err := t.fill(t.text.Test, order[i*t.batch:][:t.batch]); err != nil {
			return 0, err
		}
		err := t.sess.Step(ctx, func(s *autograd.Scope) error {
			loss := t.model.Loss(s.NoGrad().Eval(), s.Input(t.x), s.Input(t.y))
			mean += loss.Item() / float64(batches)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return mean, nil
}
