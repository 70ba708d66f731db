package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c}
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
	plan, err := t.sess.Plan(t.update, autograd.PlanConfig{})
	if err != nil {
		return f, err
	}
	worst := slices.MaxFunc(plan.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	f.Predict(plan.Peak(), plan.Arena(), worst.ByKind)

	w := &watermark{alive: map[uint64]int64{}}
	t.dev.SetTrace(w.event)
	ms, err := t.train(ctx, p)
	t.dev.SetTrace(nil)
	if err != nil {
		return f, err
	}
	f.Measure(t.dev.Stats())
	f.RSS, f.StepMS, f.Loss, f.Activations = meter.Peak(), row.Num(ms), row.Num(t.loss), w.most
	return f, t.close()
}

// build makes all that lives for the whole training.
func (t *trainer) build(ctx context.Context) (err error) {
	if t.dev, err = memory.NewDevice(memory.Config{}); err != nil {
		return err
	}
	if t.sess, err = autograd.New(autograd.Config{Device: t.dev, Seed: t.Seed, Workers: t.Threads}); err != nil {
		return err
	}
	t.model, err = nn.NewGPT(t.sess, nn.GPTConfig{Vocab: data.Vocabulary, Context: t.Context, Dim: t.Dim, Heads: 2, Layers: t.Depth, Dropout: 0.1})
	if err != nil {
		return err
	}
	if t.opt, err = optim.NewAdamW(nn.Params(t.model), optim.AdamWConfig{LR: 1e-3, WeightDecay: 0.01}); err != nil {
		return err
	}
	return t.open(ctx)
}

// open begins an epoch, of which a few batches are used.
func (t *trainer) open(ctx context.Context) error {
	text, err := data.Sequences(t.text.Train, t.Context)
	if err != nil {
		return err
	}
	if n := text.Len(); t.Steps*t.Batch > n {
		return fmt.Errorf("checkpoint: %d steps of batch %d: the text has only %d sequences of %d bytes", t.Steps, t.Batch, n, t.Context)
	}
	loader, err := data.NewLoader(t.dev, text, data.LoaderConfig{Batch: t.Batch, Shuffle: true, Seed: t.Seed})
	if err != nil {
		return err
	}
	t.batches, err = loader.Open(ctx, 0)
	return err
}

// close gives all back; what is still alive then is a leak, and an error.
func (t *trainer) close() error {
	t.batches.Close()
	return errors.Join(t.sess.Close(), t.dev.Close())
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

// train runs all steps and gives the shortest time of one, in milliseconds.
func (t *trainer) train(ctx context.Context, p *row.Progress) (ms float64, err error) {
	t.dev.ResetPeak()
	p.Start(t.Row, t.Steps)
	var times []time.Duration
	for i := range t.Steps {
		start := time.Now()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return 0, err
		}
		times = append(times, time.Since(start))
		p.Step(i+1, t.loss)
	}
	return float64(slices.Min(times).Microseconds()) / 1e3, nil
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
	case e.Act == memory.Free:
		w.live -= w.alive[e.ID]
		delete(w.alive, e.ID)
	case (e.Act == memory.Alloc || e.Act == memory.SetKind) && e.Kind == memory.Activation:
		w.live += e.Bytes - w.alive[e.ID]
		w.alive[e.ID] = e.Bytes
	}
	w.most = max(w.most, w.live)
}
