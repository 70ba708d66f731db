package optim

import (
	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/tensor"
)

// Adam is Adam with coupled weight decay (Kingma and Ba, 2015): where AdamW shrinks the parameter, Adam adds the decay to
// the gradient, so that it passes through the moments. For each parameter p with gradient g:
//
//	g  = g + weightDecay p                            -g first, if Maximize
//
// and then as AdamW without decay. State: as AdamW's.
type Adam struct{ core }

// AdamConfig are the hyper-parameters of Adam, the fields those of AdamWConfig; torch's default of WeightDecay is 0.
type AdamConfig AdamWConfig

// AdamGroup is a set of parameters with hyper-parameters of their own.
type AdamGroup = Group[AdamConfig]

// NewAdam makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewAdam(params []*autograd.Param, cfg AdamConfig) (*Adam, error) {
	return newAdam("NewAdam", AdamGroup{params, cfg})
}

// NewAdamGroups is NewAdam for groups, each with its own hyper-parameters. No parameter may be in two.
func NewAdamGroups(groups ...AdamGroup) (*Adam, error) { return newAdam("NewAdamGroups", groups...) }

func newAdam(maker string, groups ...AdamGroup) (*Adam, error) {
	o := &Adam{core{name: "Adam", op: "adam"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

// w sees c as the config that has the rule.
func (c *AdamConfig) w() *AdamWConfig { return (*AdamWConfig)(c) }

func (c *AdamConfig) check() error                    { return c.w().check() }
func (c *AdamConfig) rate() *float64                  { return &c.LR }
func (c *AdamConfig) fields() []field                 { return c.w().fields() }
func (c *AdamConfig) state(spec tensor.Spec) []moment { return c.w().state(spec) }
func (c *AdamConfig) half() HalfUpdate                { return c.Half }
func (c *AdamConfig) store() StateStore               { return c.Store }
func (c *AdamConfig) update(sl *slot, lo, hi int)     { c.w().step(true, sl, lo, hi) }

func (c *AdamConfig) clone() config {
	d := *c
	return &d
}
