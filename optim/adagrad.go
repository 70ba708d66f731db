package optim

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Adagrad divides gradients by the root of the sum of all their squares so far (Duchi, Hazan and Singer, 2011). For each
// parameter p with gradient g, at its t-th step:
//
//	g    = g + weightDecay p                          -g first, if Maximize
//	sum  = sum + g^2
//	p    = p - lr/(1 + (t-1) lrDecay) g/(sqrt(sum) + eps)
//
// State: sum, one tensor of the parameter's size.
type Adagrad struct{ core }

// AdagradConfig are the hyper-parameters of Adagrad.
type AdagradConfig struct {
	// LR is the learning rate, above 0. Required; torch's default is 1e-2.
	LR float64
	// LRDecay lowers the rate with the parameter's own steps; 0: not at all.
	LRDecay float64
	// WeightDecay adds WeightDecay times the parameter to its gradient; 0: none.
	WeightDecay float64
	// Eps keeps the division from zero; it is added to the root. Default 1e-10.
	Eps float64
	// Maximize climbs instead of descending.
	Maximize bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
}

// AdagradGroup is a set of parameters with hyper-parameters of their own.
type AdagradGroup = Group[AdagradConfig]

// NewAdagrad makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewAdagrad(params []*autograd.Param, cfg AdagradConfig) (*Adagrad, error) {
	return newAdagrad("NewAdagrad", AdagradGroup{params, cfg})
}

// NewAdagradGroups is NewAdagrad for groups, each with its own hyper-parameters. No parameter may be in two.
func NewAdagradGroups(groups ...AdagradGroup) (*Adagrad, error) {
	return newAdagrad("NewAdagradGroups", groups...)
}

func newAdagrad(maker string, groups ...AdagradGroup) (*Adagrad, error) {
	o := &Adagrad{core{name: "Adagrad", op: "adagrad"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *AdagradConfig) check() error {
	if c.Eps == 0 {
		c.Eps = 1e-10
	}
	return first(
		notNegative("LR", c.LR),
		notNegative("LRDecay", c.LRDecay),
		notNegative("WeightDecay", c.WeightDecay),
		notNegative("Eps", c.Eps),
	)
}

func (c *AdagradConfig) rate() *float64 { return &c.LR }

func (c *AdagradConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "lr_decay", num: &c.LRDecay},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "eps", num: &c.Eps},
		{name: "maximize", flag: &c.Maximize},
	}
}

func (c *AdagradConfig) state(spec tensor.Spec) []moment { return moments(spec, "sum") }

func (c *AdagradConfig) half() HalfUpdate { return c.Half }

func (c *AdagradConfig) store() StateStore { return c.Store }

func (c *AdagradConfig) clone() config {
	d := *c
	return &d
}

func (c *AdagradConfig) update(sl *slot, lo, hi int) {
	h := kernel.Adagrad{Rate: c.LR / (1 + float64(sl.steps)*c.LRDecay), Eps: c.Eps, WeightDecay: c.WeightDecay, Maximize: c.Maximize, GradScale: sl.factor}
	if sl.double() {
		adagrad(&h, sl.float64s(lo, hi))
	} else {
		adagrad(&h, sl.float32s(lo, hi))
	}
}

func adagrad[T kernel.Float](h *kernel.Adagrad, x operands[T]) {
	kernel.AdagradStep(h, x.p, x.g, x.state[0])
}
