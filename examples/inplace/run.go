package main

import (
	"context"
	"fmt"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/data"
	images "github.com/thimble-ml/thimble/examples/internal/mnist"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/optim"
)

// way is how much is written over.
type way struct {
	name             string
	backward, layers bool
}

// ways are the rows.
var ways = []way{{"buffers", false, false}, {"backward", true, false}, {"layers", true, true}}

// trainer is a row at work.
type trainer struct {
	settings
	dev   *memory.Device
	sess  *autograd.Session
	model nn.Sequential
	opt   *optim.SGD
	epoch *data.Epoch
	now   *data.Batch // at hand
	loss  float64     // of the last update

	ending row.Cleanup
}

// all runs each way on the same batches.
func all(ctx context.Context, c settings, p *row.Progress) (rows []figures, err error) {
	set, _, err := images.Load(ctx, c.data)
	if err != nil {
		return nil, err
	}
	if c.steps*c.batch > set.N {
		return nil, fmt.Errorf("inplace: %d steps of %d images: the training set has %d", c.steps, c.batch, set.N)
	}
	for _, w := range ways {
		p.Start(w.name, c.steps)
		f, err := run(ctx, c, w, set, p)
		if err != nil {
			return nil, err
		}
		p.Done(f.Row)
		rows = append(rows, f)
	}
	return rows, nil
}

// run predicts the peak, trains and measures.
func run(ctx context.Context, c settings, w way, set *data.Images, p *row.Progress) (f figures, err error) {
	t := &trainer{settings: c}
	defer t.ending.Run(&err)
	if err := t.build(ctx, w, set); err != nil {
		return f, err
	}
	f.Name, f.Steps = w.name, c.steps
	var times row.Times
	for step := range c.steps {
		if t.now, err = t.epoch.Next(); err != nil {
			return f, err
		}
		if step == 0 {
			if err := t.predict(&f); err != nil {
				return f, err
			}
		}
		start := time.Now()
		if err := t.sess.Step(ctx, t.update); err != nil {
			return f, err
		}
		times.Since(start)
		p.Step(step+1, t.loss)
	}
	f.StepMS, f.Loss = times.Median(), row.Num(t.loss)
	f.Measure(t.dev.Stats())
	return f, f.Check()
}

// predict runs an update dry: it tells what will be written over, too.
func (t *trainer) predict(f *figures) error {
	plan, err := t.sess.Plan(t.update, autograd.PlanConfig{})
	if err != nil {
		return err
	}
	f.PredictPlan(plan)
	f.InPlace, f.Ops = plan.Steps[len(plan.Steps)-1].InPlace, plan.InPlace
	t.dev.ResetPeak()
	return nil
}

// build makes all that lives for the whole training.
func (t *trainer) build(ctx context.Context, w way, set *data.Images) (err error) {
	if t.dev, t.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: t.seed, Workers: t.threads, NoOverwrite: !w.backward}, &t.ending); err != nil {
		return err
	}
	in := set.H * set.W
	for _, width := range []int{t.hidden, t.hidden, set.Classes} {
		fc, err := nn.NewLinear(t.sess, in, width)
		if err != nil {
			return err
		}
		t.model, in = append(t.model, fc), width
		if width != set.Classes { // nothing saves what a linear layer gives, nor what a ReLU does
			t.model = append(t.model, nn.ReLU{InPlace: w.layers}, nn.Dropout{P: 0.2, InPlace: w.layers})
		}
	}
	if t.opt, err = optim.NewSGD(nn.Params(t.model), optim.SGDConfig{LR: 0.1}); err != nil {
		return err
	}
	loader, err := images.Loader(t.dev, set, set.Norm(), data.LoaderConfig{Batch: t.batch, Shuffle: true, Seed: t.seed}, set.H*set.W)
	if err != nil {
		return err
	}
	if t.epoch, err = loader.Open(ctx, 0); err != nil {
		return err
	}
	t.ending.Add(func() error { t.epoch.Close(); return nil })
	return nil
}

// update is one training step: the same code runs dry and for real.
func (t *trainer) update(s *autograd.Scope) error {
	loss := s.Do("loss", func(s *autograd.Scope) *autograd.Value {
		return ops.CrossEntropy(s, t.model.Forward(s, s.Input(t.now.X)), s.Input(t.now.Y))
	})
	t.loss = loss.Item()
	loss.Backward(s)
	if err := t.opt.Step(s); err != nil {
		return err
	}
	t.opt.ZeroGrad(s)
	return nil
}
