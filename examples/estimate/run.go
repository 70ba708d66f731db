package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// run builds model and optimizer on a virtual device and plans their training step.
func run(c settings) (f figures, err error) {
	m, err := find("model", c.model, models)
	if err != nil {
		return f, err
	}
	o, err := find("optimizer", c.optimizer, optimizers)
	if err != nil {
		return f, err
	}
	if err := c.sequence(m); err != nil {
		return f, err
	}
	dev, err := memory.NewDevice(memory.Config{Virtual: true})
	if err != nil {
		return f, err
	}
	sess, err := autograd.New(autograd.Config{Device: dev})
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, sess.Close(), dev.Close()) }()

	f.model, f.Name = m, fmt.Sprintf("%s, %s, batch %d", m.name, o.name, c.batch)
	if c.seq > 0 {
		f.Name += fmt.Sprintf(", seq %d", c.seq)
	}
	t, err := m.make.build(sess, c)
	if err != nil {
		return f, err
	}
	opt, err := o.make(nn.Params(t.module))
	if err != nil {
		return f, err
	}
	f.Parameters = nn.NumParams(t.module)
	return f, f.plan(sess, t, opt)
}

// plan runs the training step dry.
func (f *figures) plan(sess *autograd.Session, t task, opt optim.Optimizer) error {
	dev, site := sess.Device(), memory.Site{Op: "batch"}
	x, err := tensor.New(dev, memory.Input, site, t.x)
	if err != nil {
		return err
	}
	defer x.Release()
	y, err := tensor.New(dev, memory.Input, site, t.y)
	if err != nil {
		return err
	}
	defer y.Release()

	plan, err := sess.Plan(func(s *autograd.Scope) error {
		loss := t.loss(s, s.Input(x), s.Input(y))
		loss.Backward(s)
		live := dev.Stats().LiveByKind // all gradients are there
		f.StateBytes = live[memory.Param] + live[memory.Grad] + live[memory.OptState]
		if err := opt.Step(s); err != nil {
			return err
		}
		opt.ZeroGrad(s)
		return nil
	}, autograd.PlanConfig{Steps: 2})
	if err != nil {
		return err
	}
	worst := slices.MaxFunc(plan.Steps, func(a, b autograd.StepPlan) int { return cmp.Compare(a.Peak, b.Peak) })
	f.Predict(plan.Peak(), plan.Arena(), worst.ByKind)
	return f.Check()
}
