package optim

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// RMSprop divides gradients by a running mean of their size (Hinton, lecture 6e, 2012), centered as in Graves (2013). For
// each parameter p with gradient g:
//
//	g    = g + weightDecay p                          -g first, if Maximize
//	v    = alpha v + (1 - alpha) g^2
//	avg  = alpha avg + (1 - alpha) g                  if Centered: v - avg^2 stands in for v below
//	buf  = momentum buf + g/(sqrt(v) + eps)           without Momentum buf is the quotient alone
//	p    = p - lr buf
//
// State: v; avg if Centered; buf if Momentum is not 0.
type RMSprop struct{ core }

// RMSpropConfig are the hyper-parameters of RMSprop.
type RMSpropConfig struct {
	// LR is the learning rate, above 0. Required; torch's default is 1e-2.
	LR float64
	// Alpha is how much of the mean square is kept. Default 0.99.
	Alpha float64
	// Eps keeps the division from zero; it is added to the root. Default 1e-8.
	Eps float64
	// WeightDecay adds WeightDecay times the parameter to its gradient; 0: none.
	WeightDecay float64
	// Momentum is how much of the last update is kept; 0: none, and no state.
	Momentum float64
	// Centered divides by the deviation from the mean gradient.
	Centered bool
	// Maximize climbs instead of descending.
	Maximize bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
}

// RMSpropGroup is a set of parameters with hyper-parameters of their own.
type RMSpropGroup = Group[RMSpropConfig]

// NewRMSprop makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewRMSprop(params []*autograd.Param, cfg RMSpropConfig) (*RMSprop, error) {
	return newRMSprop("NewRMSprop", RMSpropGroup{params, cfg})
}

// NewRMSpropGroups is NewRMSprop for groups, each with its own hyper-parameters. No parameter may be in two.
func NewRMSpropGroups(groups ...RMSpropGroup) (*RMSprop, error) {
	return newRMSprop("NewRMSpropGroups", groups...)
}

func newRMSprop(maker string, groups ...RMSpropGroup) (*RMSprop, error) {
	o := &RMSprop{core{name: "RMSprop", op: "rmsprop"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *RMSpropConfig) check() error {
	if c.Alpha == 0 {
		c.Alpha = 0.99
	}
	if c.Eps == 0 {
		c.Eps = 1e-8
	}
	return first(
		notNegative("LR", c.LR),
		inUnit("Alpha", c.Alpha),
		notNegative("Eps", c.Eps),
		notNegative("WeightDecay", c.WeightDecay),
		notNegative("Momentum", c.Momentum),
	)
}

func (c *RMSpropConfig) rate() *float64 { return &c.LR }

func (c *RMSpropConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "alpha", num: &c.Alpha},
		{name: "eps", num: &c.Eps},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "momentum", num: &c.Momentum},
		{name: "centered", flag: &c.Centered},
		{name: "maximize", flag: &c.Maximize},
	}
}

func (c *RMSpropConfig) state(spec tensor.Spec) []moment {
	names := []string{"square_avg"}
	if c.Centered {
		names = append(names, "grad_avg")
	}
	if c.Momentum != 0 {
		names = append(names, "momentum_buffer")
	}
	return moments(spec, names...)
}

func (c *RMSpropConfig) half() HalfUpdate { return c.Half }

func (c *RMSpropConfig) store() StateStore { return c.Store }

func (c *RMSpropConfig) clone() config {
	d := *c
	return &d
}

func (c *RMSpropConfig) update(sl *slot, lo, hi int) {
	h := kernel.RMSprop{LR: c.LR, Alpha: c.Alpha, Eps: c.Eps, WeightDecay: c.WeightDecay, Momentum: c.Momentum, Maximize: c.Maximize, GradScale: sl.factor}
	if sl.double() {
		rmsprop(&h, c.Centered, sl.float64s(lo, hi))
	} else {
		rmsprop(&h, c.Centered, sl.float32s(lo, hi))
	}
}

func rmsprop[T kernel.Float](h *kernel.RMSprop, centered bool, x operands[T]) {
	var avg, buf []T
	next := 1
	if centered {
		avg = x.state[next]
		next++
	}
	if h.Momentum != 0 {
		buf = x.state[next]
	}
	kernel.RMSpropStep(h, x.p, x.g, x.state[0], avg, buf)
}
