package main

import (
	"fmt"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/examples/internal/row"
	"github.com/thimble-ml/thimble/memory"
	"github.com/thimble-ml/thimble/nn"
	"github.com/thimble-ml/thimble/optim"
)

// run builds model and optimizer on a virtual device and plans their training step.
func run(c settings) (f figures, err error) {
	m, err := row.Find("estimate: model", c.model, models)
	if err != nil {
		return f, err
	}
	o, err := row.Find("estimate: optimizer", c.optimizer, optimizers)
	if err != nil {
		return f, err
	}
	if err := c.sequence(m); err != nil {
		return f, err
	}
	var ending row.Cleanup
	defer ending.Run(&err)
	_, sess, err := row.Open(memory.Config{Virtual: true}, autograd.Config{}, &ending)
	if err != nil {
		return f, err
	}

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
	return f, f.plan(sess, t, opt, &ending)
}

// plan runs the training step dry.
func (f *figures) plan(sess *autograd.Session, t task, opt optim.Optimizer, end *row.Cleanup) error {
	dev := sess.Device()
	x, err := row.Input(dev, t.x, end)
	if err != nil {
		return err
	}
	y, err := row.Input(dev, t.y, end)
	if err != nil {
		return err
	}
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
	f.PredictPlan(plan)
	return f.Check()
}
