package main

import (
	"context"
	"slices"
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

const batch = 64 // sequences an update

// way is how a batch is cut.
type way struct {
	name  string
	micro []int // sequences in each micro-batch
}

func (w way) String() string { return w.name }

// ways are the rows.
var ways = []way{
	{"1 x 64", []int{64}},
	{"4 x 16", slices.Repeat([]int{16}, 4)},
	{"16 x 4", slices.Repeat([]int{4}, 16)},
	{"30+21+13", []int{30, 21, 13}},
}

// equal tells whether all micro-batches have one size.
func (w way) equal() bool {
	return !slices.ContainsFunc(w.micro, func(n int) bool { return n != w.micro[0] })
}

// settings are what a row is made of; the child process gets them as JSON.
type settings struct {
	Way                 string
	Data                string
	Steps, Context, Dim int
	Seed                uint64
	Threads             int
}

// trainer is a row at work.
type trainer struct {
	settings
	way way

	dev    *memory.Device
	sess   *autograd.Session
	model  *nn.GPT
	window *train.Window
	epoch  *data.Epoch
	batch  *data.Batch // at hand
	ending row.Cleanup
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if t.way, err = row.Find("accumulate: row", c.Way, ways); err != nil {
		return f, err
	}
	text, err := gosource.Load(ctx, t.Data, 1<<20)
	if err != nil {
		return f, err
	}
	meter := row.StartResident()
	if err := t.build(ctx, text); err != nil {
		return f, err
	}
	f.Name, f.Micro, f.Steps = c.Way, t.way.micro, c.Steps
	if f.Losses, err = t.train(ctx, &f, p); err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	f.RSS, f.Loss = meter.Peak(), row.Num(f.Losses[len(f.Losses)-1])
	return f, nil
}

// build makes all that lives for the whole training. There is no dropout: a mask drawn for a micro-batch is another than
// one drawn for the batch.
func (t *trainer) build(ctx context.Context, text *data.Text) (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	if t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{Vocab: data.Vocabulary, Context: t.Context, Dim: t.Dim, Heads: 2, Layers: 4}); err != nil {
		return err
	}
	opt, err := optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: 3e-3, WeightDecay: 0.01})
	if err != nil {
		return err
	}
	cosine, err := optim.NewCosineAnnealing(opt, optim.CosineConfig{TMax: t.Steps, EtaMin: 3e-4})
	if err != nil {
		return err
	}
	t.window, err = train.NewWindow(opt, train.WindowConfig{Micro: len(t.way.micro), ByCount: !t.way.equal(), Schedule: cosine})
	if err != nil {
		return err
	}
	t.epoch, err = gosource.Batches{Steps: t.Steps, Batch: batch, Context: t.Context, Seed: t.Seed}.Open(ctx, t.dev, text, &t.ending)
	return err
}

// update is one update: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	if !t.way.equal() { // what counts in the whole window is known before its first backward
		if err := t.window.Begin(s, len(t.way.micro), float64(batch*t.Context)); err != nil {
			return err
		}
	}
	at := 0
	for _, n := range t.way.micro {
		if err := t.micro(s, at, at+n); err != nil {
			return err
		}
		at += n
	}
	return nil
}

// micro is the micro-batch of sequences [lo, hi).
func (t *trainer) micro(s *autograd.Scope, lo, hi int) error {
	x, err := t.batch.X.Slice(0, lo, hi)
	if err != nil {
		return err
	}
	y, err := t.batch.Y.Slice(0, lo, hi)
	if err != nil {
		return err
	}
	loss := t.model.Loss(s, s.Input(&x), s.Input(&y)) // a mean over its tokens
	if t.way.equal() {
		_, err = t.window.Backward(s, loss)
	} else {
		_, err = t.window.BackwardMean(s, loss, float64((hi-lo)*t.Context))
	}
	s.Free(loss)
	return err
}

// train runs all updates and gives the loss of each.
func (t *trainer) train(ctx context.Context, f *figures, p *row.Progress) (losses []float64, err error) {
	p.Start(t.Way, t.Steps)
	var times row.Times
	for step := range t.Steps {
		if t.batch, err = t.epoch.Next(); err != nil {
			return nil, err
		}
		if step == 0 {
			if err := f.PredictStep(t.sess, t.update); err != nil {
				return nil, err
			}
		}
		start := time.Now()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return nil, err
		}
		times.Since(start)
		losses = append(losses, t.window.Loss())
		p.Step(step+1, t.window.Loss())
	}
	f.StepMS = times.Median()
	return losses, nil
}
