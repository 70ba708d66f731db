package main

import (
	"context"
	"time"

	"github.com/thimble-ml/thimble/amp"
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
	"github.com/thimble-ml/thimble/train"
)

// way is how numbers are kept.
type way struct {
	name  string
	dtype tensor.DType        // of parameters, and with them of gradients and moments
	cast  autograd.CastPolicy // of products
	scale bool                // losses are scaled
	half  optim.HalfUpdate    // how an update is rounded
	note  string
}

func (w way) String() string { return w.name }

// ways are the rows. The last is no row of -json: it has no loss to compare.
var ways = []way{
	{name: "float32", dtype: tensor.Float32},
	{name: "bf16-autocast", dtype: tensor.Float32, cast: amp.BFloat16},
	{name: "fp16-autocast", dtype: tensor.Float32, cast: amp.Float16, scale: true},
	{name: "bf16-stochastic", dtype: tensor.BFloat16, half: optim.RoundStochastic},
	{name: "bf16-nearest", dtype: tensor.BFloat16, half: optim.RoundNearest},
	{name: "fp16-all", dtype: tensor.Float16, half: optim.RoundNearest,
		note: "everything in float16: the squares of gradients are below 6e-8, the second moment is 0, and the update divides by it"},
}

// settings are what a row is made of; the child process gets them as JSON.
type settings struct {
	Row                                string
	Data                               string
	Steps, Batch, Context, Dim, Layers int
	LR                                 float64
	Seed                               uint64
	Threads                            int
	Scale                              float64 // of the scaler at first; 0: the usual one
}

// ending is the number of updates whose mean loss a row is judged by.
const ending = 50

// overflowing is a factor of the loss that no gradient in float16 survives.
const overflowing = 1 << 20

// figures are a row and its course.
type figures struct {
	row.Row
	LossFirst row.Number   `json:"loss_first"` // of the first update
	LossLast  row.Number   `json:"loss_last"`  // mean of the last 50
	Skipped   int          `json:"skipped"`    // updates that overflowed
	Losses    []row.Number `json:"losses"`     // of each update; null where it is no number
	Scales    []float64    `json:"scales"`     // of each update
}

// trainer is a row at work.
type trainer struct {
	settings
	way way

	dev    *memory.Device
	sess   *autograd.Session
	model  *nn.GPT
	opt    *optim.AdamW
	scaler *amp.GradScaler // nil: losses are as they are
	window *train.Window
	epoch  *data.Epoch
	batch  *data.Batch // at hand
	factor float64     // of the loss: 1, but in the update that is to overflow
	ending row.Cleanup
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c, factor: 1}
	defer t.ending.Run(&err)
	meter := row.StartResident()
	if err := t.build(ctx); err != nil {
		return f, err
	}
	f.Name, f.Steps = c.Row, c.Steps
	if err := t.train(ctx, &f, p); err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	if t.scaler != nil {
		f.Skipped = t.scaler.Skipped()
	}
	f.RSS, f.Loss, f.LossFirst = meter.Peak(), f.Losses[c.Steps-1], f.Losses[0]
	f.LossLast = mean(f.Losses[max(0, c.Steps-ending):])
	return f, nil
}

// mean of numbers; missing if one of them is.
func mean(list []row.Number) row.Number {
	sum := 0.0
	for _, n := range list {
		v, ok := n.Value()
		if !ok {
			return row.Number{}
		}
		sum += v
	}
	return row.Num(sum / float64(len(list)))
}

// build makes all that lives for the whole training.
func (t *trainer) build(ctx context.Context) (err error) {
	if t.way, err = row.Find("amp: row", t.Row, ways); err != nil {
		return err
	}
	text, err := gosource.Load(ctx, t.Data, 1<<20)
	if err != nil {
		return err
	}
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{Vocab: data.Vocabulary, Context: t.Context, Dim: t.Dim, Heads: 2, Layers: t.Layers, DType: t.way.dtype})
	if err != nil {
		return err
	}
	if err := t.optimizer(); err != nil {
		return err
	}
	t.epoch, err = gosource.Batches{Steps: t.Steps, Batch: t.Batch, Context: t.Context, Seed: t.Seed}.Open(ctx, t.dev, text, &t.ending)
	return err
}

// optimizer makes it, its schedule, and the scaler if the way has one.
func (t *trainer) optimizer() (err error) {
	t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: t.LR, WeightDecay: 0.01, Half: t.way.half})
	if err != nil {
		return err
	}
	cosine, err := optim.NewCosineAnnealing(t.opt, optim.CosineConfig{TMax: t.Steps, EtaMin: t.LR / 20})
	if err != nil {
		return err
	}
	cfg := train.WindowConfig{Micro: 1, Schedule: cosine}
	if t.way.scale {
		if t.scaler, err = amp.NewGradScaler(amp.GradScalerConfig{InitScale: t.Scale, GrowthInterval: max(1, t.Steps/7)}); err != nil {
			return err
		}
		cfg.Scaler = t.scaler
	}
	t.window, err = train.NewWindow(t.opt, cfg)
	return err
}

// update is one update: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := t.model.Loss(s.WithAutocast(t.way.cast), s.Input(t.batch.X), s.Input(t.batch.Y))
	if t.scaler != nil {
		loss = ops.MulScalar(s, loss, t.factor)
	}
	_, err := t.window.Backward(s, loss)
	return err
}

// train runs all updates and gives their course.
func (t *trainer) train(ctx context.Context, f *figures, p *row.Progress) (err error) {
	p.Start(t.Row, t.Steps)
	var times row.Times
	for step := range t.Steps {
		if t.batch, err = t.epoch.Next(); err != nil {
			return err
		}
		if step == 0 {
			if err := f.PredictStep(t.sess, t.update); err != nil {
				return err
			}
		}
		if t.factor = 1; step == t.Steps/2 {
			t.factor = overflowing
		}
		begin, scale := time.Now(), t.scale()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return err
		}
		times.Since(begin)
		loss := t.window.Loss()
		if t.scaler != nil {
			loss /= t.factor
		}
		f.Losses, f.Scales = append(f.Losses, row.Num(loss)), append(f.Scales, scale)
		p.Step(step+1, loss)
	}
	f.StepMS = times.Median()
	return nil
}

func (t *trainer) scale() float64 {
	if t.scaler == nil {
		return 1
	}
	return t.scaler.Scale()
}
