package main

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
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
}

// start makes everything that lives for the whole run.
func start(c settings) (j *job, err error) {
	if c.threads == 0 {
		c.threads = runtime.GOMAXPROCS(0)
	}
	j = &job{settings: c, rand: rand.New(rand.NewPCG(1, 2)), noise: tensor.Stream{Seed: 1}}
	if j.dev, err = memory.NewDevice(memory.Config{}); err != nil {
		return nil, err
	}
	if j.sess, err = autograd.New(autograd.Config{Device: j.dev, Seed: 1337, Workers: c.threads}); err != nil {
		return nil, err
	}
	if j.net, err = c.model.build(j.sess); err != nil {
		return nil, err
	}
	if c.blocks {
		recompute(j.net)
	}
	if !c.infer {
		if j.opt, err = optim.NewAdamW(nn.Params(j.net), optim.AdamWConfig{LR: 3e-4, WeightDecay: 0.1}); err != nil {
			return nil, err
		}
	}
	x, y := c.model.inputs(c.batch)
	if j.x, err = tensor.New(j.dev, memory.Input, memory.Site{Op: "batch"}, x); err != nil {
		return nil, err
	}
	if j.y, err = tensor.New(j.dev, memory.Input, memory.Site{Op: "batch"}, y); err != nil {
		return nil, err
	}
	return j, j.fill()
}

// close gives all back; what is still alive then is a leak, and an error.
func (j *job) close() error {
	j.x.Release()
	j.y.Release()
	return errors.Join(j.sess.Close(), j.dev.Close())
}

// run predicts the peak, and times steps.
func run(ctx context.Context, c settings, p *row.Progress) (f figures, err error) {
	j, err := start(c)
	if err != nil {
		return f, err
	}
	f.Name, f.Model, f.Batch, f.Threads, f.Steps = c.model.name, c.model.name, c.batch, j.threads, warmUp+c.steps
	plan, err := j.sess.Plan(j.step, autograd.PlanConfig{})
	if err != nil {
		return f, err
	}
	worst := slices.MaxFunc(plan.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	f.Predict(plan.Peak(), plan.Arena(), worst.ByKind)
	if err := j.time(ctx, &f, p); err != nil {
		return f, err
	}
	f.Measure(j.dev.Stats())
	f.RSS = row.ProcessPeak()
	return f, errors.Join(f.Check(), j.close())
}

// time runs the steps and sets the figures of speed.
func (j *job) time(ctx context.Context, f *figures, p *row.Progress) error {
	j.dev.ResetPeak()
	p.Start(j.model.name, warmUp+j.steps)
	var steps [4][]float64 // forward, backward, optimizer, all
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
			steps[k] = append(steps[k], d.Seconds()*1e3)
		}
	}
	f.Loss, f.LossLast = row.Num(j.last), row.Num(j.last)
	f.FwdMS, f.BwdMS, f.OptMS = row.Num(median(steps[0])), row.Num(median(steps[1])), row.Num(median(steps[2]))
	j.rates(f, median(steps[3]))
	return nil
}

// rates sets what follows from the time of a step.
func (j *job) rates(f *figures, ms float64) {
	flop := j.model.flop
	if j.infer {
		flop = j.model.infer
	}
	units := float64(j.batch * j.model.units)
	f.StepMS, f.Rate, f.GFLOPS = row.Num(ms), row.Num(units/ms*1e3), row.Num(units*flop/ms/1e6)
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

func median(ms []float64) float64 {
	slices.Sort(ms)
	return ms[len(ms)/2]
}
