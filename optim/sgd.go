package optim

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// SGD is stochastic gradient descent (Robbins and Monro, 1951) with momentum (Polyak, 1964), also Nesterov's (1983; in
// the form of Sutskever et al., 2013). For each parameter p with gradient g:
//
//	g    = g + weightDecay p                          -g first, if Maximize
//	buf  = momentum buf + (1 - dampening) g           buf = g at the parameter's first step
//	p    = p - lr buf                                 lr (g + momentum buf) if Nesterov; lr g without momentum
//
// State: one tensor of the parameter's size if Momentum is not 0, else none.
type SGD struct{ core }

// SGDConfig are the hyper-parameters of SGD.
type SGDConfig struct {
	// LR is the learning rate, above 0. Required; torch's default is 1e-3.
	LR float64
	// Momentum is how much of the last update is kept, usually 0.9; 0: none, and no state.
	Momentum float64
	// Dampening scales the gradients that enter the momentum, all but the first, by 1 - Dampening.
	Dampening float64
	// WeightDecay adds WeightDecay times the parameter to its gradient (an L2 penalty); 0: none.
	WeightDecay float64
	// Nesterov looks ahead along the momentum. It takes Momentum and no Dampening.
	Nesterov bool
	// Maximize climbs instead of descending.
	Maximize bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
}

// SGDGroup is a set of parameters with hyper-parameters of their own.
type SGDGroup = Group[SGDConfig]

// NewSGD makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewSGD(params []*autograd.Param, cfg SGDConfig) (*SGD, error) {
	return newSGD("NewSGD", SGDGroup{params, cfg})
}

// NewSGDGroups is NewSGD for groups, each with its own hyper-parameters. No parameter may be in two.
func NewSGDGroups(groups ...SGDGroup) (*SGD, error) {
	return newSGD("NewSGDGroups", groups...)
}

func newSGD(maker string, groups ...SGDGroup) (*SGD, error) {
	o := &SGD{core{name: "SGD", op: "sgd"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *SGDConfig) check() error {
	return first(
		notNegative("LR", c.LR),
		notNegative("Momentum", c.Momentum),
		notNegative("Dampening", c.Dampening),
		notNegative("WeightDecay", c.WeightDecay),
		failIf(c.Nesterov && c.Momentum == 0, "Nesterov is set and Momentum is 0: want a momentum to look ahead along"),
		failIf(c.Nesterov && c.Dampening != 0, "Nesterov is set and Dampening is not 0: want one of them"),
	)
}

func (c *SGDConfig) rate() *float64 { return &c.LR }

func (c *SGDConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "momentum", num: &c.Momentum},
		{name: "dampening", num: &c.Dampening},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "nesterov", flag: &c.Nesterov},
		{name: "maximize", flag: &c.Maximize},
	}
}

func (c *SGDConfig) state(spec tensor.Spec) []moment {
	if c.Momentum == 0 {
		return nil
	}
	return moments(spec, "momentum_buffer")
}

func (c *SGDConfig) half() HalfUpdate { return c.Half }

func (c *SGDConfig) store() StateStore { return c.Store }

func (c *SGDConfig) clone() config {
	d := *c
	return &d
}

func (c *SGDConfig) update(sl *slot, lo, hi int) {
	h := kernel.SGD{
		LR: c.LR, Momentum: c.Momentum, Dampening: c.Dampening, WeightDecay: c.WeightDecay,
		Nesterov: c.Nesterov, Maximize: c.Maximize,
		First: sl.steps == 0, GradScale: sl.factor,
	}
	if sl.double() {
		sgd(&h, sl.float64s(lo, hi))
	} else {
		sgd(&h, sl.float32s(lo, hi))
	}
}

func sgd[T kernel.Float](h *kernel.SGD, x operands[T]) { kernel.SGDStep(h, x.p, x.g, x.state[0]) }
