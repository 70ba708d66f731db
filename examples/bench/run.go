package main

import (
	"cmp"
	"context"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// warmUp is how many steps run before the clock starts.
const warmUp = 2

// job is a model at work.
type job struct {
	settings
	dev   *memory.Device
	sess  *autograd.Session
	net   lossModel
	opt   *optim.AdamW
	x, y  *tensor.Tensor // one batch
	rand  *rand.Rand
	noise tensor.Stream

	last   float64 // loss
	phases [3]time.Duration
	ending row.Cleanup
}

// start makes everything that lives for the whole run. What it made before an error is in j.ending, too.
func start(c settings) (j *job, err error) {
	c.threads = cmp.Or(c.threads, runtime.GOMAXPROCS(0))
	j = &job{settings: c, rand: rand.New(rand.NewPCG(1, 2)), noise: tensor.Stream{Seed: 1}}
	if j.dev, j.sess, err = row.Open(memory.Config{}, autograd.Config{Seed: 1337, Workers: c.threads}, &j.ending); err != nil {
		return j, err
	}
	if j.net, err = c.model.build(j.sess); err != nil {
		return j, err
	}
	if c.blocks {
		recompute(j.net)
	}
	if !c.infer {
		if j.opt, err = optim.NewAdamW(nn.Params(j.net), optim.AdamWConfig{LR: 3e-4, WeightDecay: 0.1}); err != nil {
			return j, err
		}
	}
	x, y := c.model.inputs(c.batch)
	if j.x, err = row.Input(j.dev, x, &j.ending); err != nil {
		return j, err
	}
	if j.y, err = row.Input(j.dev, y, &j.ending); err != nil {
		return j, err
	}
	return j, j.fill()
}

// run predicts the peak, and times steps.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	j, err := start(c)
	defer j.ending.Run(&err)
	if err != nil {
		return f, err
	}
	f.Name, f.Model, f.Batch, f.Threads, f.Steps = c.model.name, c.model.name, c.batch, j.threads, warmUp+c.steps
	if err := f.PredictStep(j.sess, j.step); err != nil {
		return f, err
	}
	if err := j.time(ctx, &f, p); err != nil {
		return f, err
	}
	f.Measure(j.dev.Stats())
	f.RSS = row.ProcessPeak()
	return f, f.Check()
}

// time runs the steps and sets the figures of speed.
func (j *job) time(ctx context.Context, f *figures, p *row.Progress) error {
	p.Start(j.model.name, warmUp+j.steps)
	var steps [4]row.Times // forward, backward, optimizer, all
	for i := range warmUp + j.steps {
		if err := j.fill(); err != nil {
			return err
		}
		begin := time.Now()
		if err := j.sess.Step(ctx, j.step); err != nil {
			return err
		}
		whole := time.Since(begin)
		p.Step(i+1, j.last)
		if i == 0 {
			f.LossFirst = row.Num(j.last)
		}
		if i < warmUp {
			continue
		}
		for k, d := range append(j.phases[:], whole) {
			steps[k] = append(steps[k], d)
		}
	}
	f.Loss, f.LossLast = row.Num(j.last), row.Num(j.last)
	f.FwdMS, f.BwdMS, f.OptMS = steps[0].Median(), steps[1].Median(), steps[2].Median()
	f.StepMS = steps[3].Median()
	j.rates(f)
	return nil
}

// rates sets what follows from the time of a step.
func (j *job) rates(f *figures) {
	flop := j.model.flop
	if j.infer {
		flop = j.model.infer
	}
	ms, _ := f.StepMS.Value()
	units := float64(j.batch * j.model.units)
	f.Rate, f.GFLOPS = row.Num(units/ms*1e3), row.Num(units*flop/ms/1e6)
}

// step is what is timed: the same code runs dry and for real.
func (j *job) step(s *autograd.Scope) error {
	begin := time.Now()
	if j.infer {
		j.last = j.loss(s.NoGrad().Eval()).Item()
		j.phases = [3]time.Duration{time.Since(begin)}
		return nil
	}
	loss := j.loss(s)
	j.last = loss.Item()
	forward := time.Now()
	loss.Backward(s)
	backward := time.Now()
	if err := j.opt.Step(s); err != nil {
		return err
	}
	j.opt.ZeroGrad(s)
	j.phases = [3]time.Duration{forward.Sub(begin), backward.Sub(forward), time.Since(backward)}
	return nil
}

func (j *job) loss(s *autograd.Scope) *autograd.Value {
	return j.net.Loss(s, s.Input(j.x), s.Input(j.y))
}

// fill makes a batch.
func (j *job) fill() error {
	j.x.Bump()
	j.y.Bump()
	j.draw(j.y, j.model.classes)
	if j.model.ids > 0 {
		j.draw(j.x, j.model.ids)
		return nil
	}
	return tensor.FillNormal(j.x, &j.noise, 0, 1)
}

// draw fills t with ids below n.
func (j *job) draw(t *tensor.Tensor, n int) {
	ids := tensor.Data[int64](t)
	for i := range ids {
		ids[i] = j.rand.Int64N(int64(n))
	}
}
