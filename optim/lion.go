package optim

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// Lion moves each element by the learning rate along the sign of a mixture of moment and gradient (Chen et al., 2023).
// For each parameter p with gradient g:
//
//	u  = sign(beta1 m + (1 - beta1) g)                -g, if Maximize; sign(0) = 0
//	p  = p (1 - lr weightDecay) - lr u
//	m  = beta2 m + (1 - beta2) g
//
// Its updates are larger than Adam's: learning rates are usually 3 to 10 times smaller, decay as much larger.
//
// State: m, one tensor of the parameter's size.
type Lion struct{ core }

// LionConfig are the hyper-parameters of Lion.
type LionConfig struct {
	// LR is the learning rate, above 0. Required; 1e-4 is usual.
	LR float64
	// Betas are the share of the moment in the update and the moment's decay rate, see func Betas. Default (0.9, 0.99).
	Betas BetaPair
	// WeightDecay shrinks the parameter by LR times WeightDecay a step; 0: not at all.
	WeightDecay float64
	// Maximize climbs instead of descending.
	Maximize bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
}

// LionGroup is a set of parameters with hyper-parameters of their own.
type LionGroup = Group[LionConfig]

// NewLion makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewLion(params []*autograd.Param, cfg LionConfig) (*Lion, error) {
	return newLion("NewLion", LionGroup{params, cfg})
}

// NewLionGroups is NewLion for groups, each with its own hyper-parameters. No parameter may be in two.
func NewLionGroups(groups ...LionGroup) (*Lion, error) {
	return newLion("NewLionGroups", groups...)
}

func newLion(maker string, groups ...LionGroup) (*Lion, error) {
	o := &Lion{core{name: "Lion", op: "lion"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *LionConfig) check() error {
	if !c.Betas.set {
		c.Betas = Betas(0.9, 0.99)
	}
	return first(
		notNegative("LR", c.LR),
		inUnit("beta1", c.Betas.b1),
		inUnit("beta2", c.Betas.b2),
		notNegative("WeightDecay", c.WeightDecay),
	)
}

func (c *LionConfig) rate() *float64 { return &c.LR }

func (c *LionConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "beta1", num: &c.Betas.b1},
		{name: "beta2", num: &c.Betas.b2},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "maximize", flag: &c.Maximize},
	}
}

func (c *LionConfig) state(spec tensor.Spec) []moment { return moments(spec, "exp_avg") }

func (c *LionConfig) half() HalfUpdate { return c.Half }

func (c *LionConfig) store() StateStore { return c.Store }

func (c *LionConfig) clone() config {
	d := *c
	return &d
}

func (c *LionConfig) update(sl *slot, lo, hi int) {
	h := kernel.Lion{LR: c.LR, Beta1: c.Betas.b1, Beta2: c.Betas.b2, WeightDecay: c.WeightDecay, Maximize: c.Maximize, GradScale: sl.factor}
	if sl.double() {
		lion(&h, sl.float64s(lo, hi))
	} else {
		lion(&h, sl.float32s(lo, hi))
	}
}

func lion[T kernel.Float](h *kernel.Lion, x operands[T]) { kernel.LionStep(h, x.p, x.g, x.state[0]) }
