package main

import (
	"context"
	"strings"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/checkpoint"
	"github.com/thimble-ml/thimble/data"
	"github.com/thimble-ml/thimble/examples/internal/gosource"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// ways are the rows.
var ways = []string{"none", "per-block", "sqrt", "recursive", "optimal"}

// settings are what a row is made of; the child process gets them as JSON.
type settings struct {
	Row                        string
	Depth, Batch, Context, Dim int
	Steps                      int
	Budget                     int64 // of the optimal row's blocks; 0: what sqrt takes
	Seed                       uint64
	Threads                    int
	Data                       string
	Costs                      string // folder of measured costs; "": measure
}

// trainer is a row at work.
type trainer struct {
	settings
	text *data.Text

	dev     *memory.Device
	sess    *autograd.Session
	model   *nn.GPT
	opt     *optim.AdamW
	batches *data.Epoch // bytes, and those that follow
	loss    float64     // of the last update
	ending  row.Cleanup
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if t.text, err = gosource.Load(ctx, t.Data, 1<<20); err != nil {
		return f, err
	}
	meter := row.StartResident()
	if err := t.build(ctx); err != nil {
		return f, err
	}
	f.Name, f.Depth, f.Steps = c.Row, c.Depth, c.Steps
	if f.Schedule, err = t.choose(); err != nil {
		return f, err
	}
	if err := f.PredictStep(t.sess, t.update); err != nil {
		return f, err
	}
	w := &watermark{alive: map[uint64]int64{}}
	t.dev.SetTrace(w.event)
	times, err := t.train(ctx, p)
	t.dev.SetTrace(nil)
	if err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	f.RSS, f.StepMS, f.Loss, f.Activations = meter.Peak(), times.Min(), row.Num(t.loss), w.most
	return f, nil
}

// build makes all that lives for the whole training.
func (t *trainer) build(ctx context.Context) (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.Seed, Workers: t.Threads}, &t.ending); err != nil {
		return err
	}
	t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{Vocab: data.Vocabulary, Context: t.Context, Dim: t.Dim, Heads: 2, Layers: t.Depth, Dropout: 0.1})
	if err != nil {
		return err
	}
	if t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: 1e-3, WeightDecay: 0.01}); err != nil {
		return err
	}
	t.batches, err = gosource.Batches{Steps: t.Steps, Batch: t.Batch, Context: t.Context, Seed: t.Seed}.Open(ctx, t.dev, t.text, &t.ending)
	return err
}

// choose sets how the model runs its blocks. For the optimal row it measures them and gives the schedule.
func (t *trainer) choose() (schedule string, err error) {
	switch t.Row {
	case "none": // the model as it is
	case "per-block":
		t.model.Chain = checkpoint.Chain(checkpoint.PerBlock)
	case "sqrt":
		t.model.Chain = checkpoint.Chain(checkpoint.Sqrt)
	case "recursive":
		t.model.Chain = checkpoint.Chain(checkpoint.Recursive)
	case "optimal":
		costs, err := t.costs()
		if err != nil {
			return "", err
		}
		if t.Budget == 0 {
			t.Budget = checkpoint.Sqrt(t.Depth).Estimate(costs).Peak
		}
		fit, err := checkpoint.Solve(costs, t.Budget)
		if err != nil {
			return "", err
		}
		t.model.Chain = checkpoint.Chain(fit.For)
		return fit.Schedule.String(), nil
	}
	return "", nil
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	batch, err := t.batches.Next()
	if err != nil {
		return err
	}
	loss := t.model.Loss(s, s.Input(batch.X), s.Input(batch.Y))
	t.loss = loss.Item()
	loss.Backward(s)
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	return nil
}

// train runs all steps and gives what each took.
func (t *trainer) train(ctx context.Context, p *row.Progress) (times row.Times, err error) {
	p.Start(t.Row, t.Steps)
	for i := range t.Steps {
		start := time.Now()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return nil, err
		}
		times.Since(start)
		p.Step(i+1, t.loss)
	}
	return times, nil
}

// watermark counts activations that blocks made.
type watermark struct {
	alive      map[uint64]int64
	live, most int64
}

// event is the device's trace function.
func (w *watermark) event(e memory.Event) {
	if !strings.Contains(e.Site.Scope, "/blocks.") {
		return
	}
	switch {
	case e.Act == memory.Free, e.Act == memory.SetKind && e.Kind != memory.Activation: // a gradient lies there now
		w.live -= w.alive[e.ID]
		delete(w.alive, e.ID)
	case (e.Act == memory.Alloc || e.Act == memory.SetKind) && e.Kind == memory.Activation:
		w.live += e.Bytes - w.alive[e.ID]
		w.alive[e.ID] = e.Bytes
	}
	w.most = max(w.most, w.live)
}
