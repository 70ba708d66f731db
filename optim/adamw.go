package optim

import (
	"math"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/tensor"
)

// AdamW is Adam (Kingma and Ba, 2015) with weight decay that is decoupled from the gradient (Loshchilov and Hutter,
// 2019). Without WeightDecay the two are the same. For each parameter p with gradient g, at its t-th step:
//
//	p  = p (1 - lr weightDecay)
//	m  = beta1 m + (1 - beta1) g                      -g, if Maximize
//	v  = beta2 v + (1 - beta2) g^2
//	p  = p - lr/(1 - beta1^t) m / (sqrt(v)/sqrt(1 - beta2^t) + eps)
//
// Eps is added after the correction of the root's bias, as in torch (TensorFlow adds it before). t counts the steps in
// which the parameter had a gradient.
//
// With AMSGrad (Reddi, Kale and Kumar, 2018) the largest v so far stands in for v in the last line.
//
// State: m and v, two tensors of the parameter's size, and a third with AMSGrad.
type AdamW struct{ core }

// AdamWConfig are the hyper-parameters of AdamW.
type AdamWConfig struct {
	// LR is the learning rate, above 0. Required; torch's default is 1e-3.
	LR float64
	// Betas are the decay rates of the moments, see func Betas. Default (0.9, 0.999).
	Betas BetaPair
	// Eps keeps the division from zero. Default 1e-8.
	Eps float64
	// WeightDecay shrinks the parameter by LR times WeightDecay a step; 0: not at all. Torch's default is 0.01.
	WeightDecay float64
	// Maximize climbs instead of descending.
	Maximize bool
	// AMSGrad divides by the largest second moment so far. As in torch it is the moment before the correction of its bias.
	AMSGrad bool
	// Store is where the state is kept: in files, in other memory (package offload). nil: on the device.
	Store StateStore
	// Half says how parameters of a half type take an update. Default RoundNearest; it changes nothing for others.
	Half HalfUpdate
}

// BetaPair are two decay rates, made by Betas. The zero value stands for an optimizer's default.
type BetaPair struct {
	b1, b2 float64
	set    bool
}

// Betas gives decay rates in [0, 1) to a config: beta1 of the first moment, beta2 of the second.
func Betas(beta1, beta2 float64) BetaPair { return BetaPair{beta1, beta2, true} }

// AdamWGroup is a set of parameters with hyper-parameters of their own.
type AdamWGroup = Group[AdamWConfig]

// NewAdamW makes an optimizer of params, which must be trainable, distinct and of one session, and allocates its state.
// Errors name the parameter or the field with its value; if memory ran out, errors.As finds the *memory.OOMError and
// nothing is held.
func NewAdamW(params []*autograd.Param, cfg AdamWConfig) (*AdamW, error) {
	return newAdamW("NewAdamW", AdamWGroup{params, cfg})
}

// NewAdamWGroups is NewAdamW for groups, each with its own hyper-parameters: decay for matrices and none for biases, for
// instance. No parameter may be in two.
func NewAdamWGroups(groups ...AdamWGroup) (*AdamW, error) {
	return newAdamW("NewAdamWGroups", groups...)
}

func newAdamW(maker string, groups ...AdamWGroup) (*AdamW, error) {
	o := &AdamW{core{name: "AdamW", op: "adamw"}}
	if err := openGroups(&o.core, maker, groups); err != nil {
		return nil, err
	}
	return o, nil
}

func (c *AdamWConfig) check() error {
	if !c.Betas.set {
		c.Betas = Betas(0.9, 0.999)
	}
	if c.Eps == 0 {
		c.Eps = 1e-8
	}
	return first(
		notNegative("LR", c.LR),
		inUnit("beta1", c.Betas.b1),
		inUnit("beta2", c.Betas.b2),
		notNegative("Eps", c.Eps),
		notNegative("WeightDecay", c.WeightDecay),
	)
}

func (c *AdamWConfig) rate() *float64 { return &c.LR }

func (c *AdamWConfig) fields() []field {
	return []field{
		{name: "lr", num: &c.LR},
		{name: "beta1", num: &c.Betas.b1},
		{name: "beta2", num: &c.Betas.b2},
		{name: "eps", num: &c.Eps},
		{name: "weight_decay", num: &c.WeightDecay},
		{name: "maximize", flag: &c.Maximize},
		{name: "amsgrad", flag: &c.AMSGrad},
	}
}

func (c *AdamWConfig) state(spec tensor.Spec) []moment {
	if c.AMSGrad {
		return moments(spec, "exp_avg", "exp_avg_sq", "max_exp_avg_sq")
	}
	return moments(spec, "exp_avg", "exp_avg_sq")
}

func (c *AdamWConfig) half() HalfUpdate { return c.Half }

func (c *AdamWConfig) store() StateStore { return c.Store }

func (c *AdamWConfig) clone() config {
	d := *c
	return &d
}

func (c *AdamWConfig) update(sl *slot, lo, hi int) { c.step(false, sl, lo, hi) }

// step is the rule of AdamW, or with l2 of Adam.
func (c *AdamWConfig) step(l2 bool, sl *slot, lo, hi int) {
	t := float64(sl.steps + 1)
	h := kernel.Adam{
		LR: c.LR, Beta1: c.Betas.b1, Beta2: c.Betas.b2, Eps: c.Eps, WeightDecay: c.WeightDecay,
		Correct1: 1 - math.Pow(c.Betas.b1, t), Correct2: 1 - math.Pow(c.Betas.b2, t),
		Maximize: c.Maximize, L2: l2, GradScale: sl.factor,
	}
	if sl.double() {
		adam(&h, sl.float64s(lo, hi))
	} else {
		adam(&h, sl.float32s(lo, hi))
	}
}

func adam[T kernel.Float](h *kernel.Adam, x operands[T]) {
	kernel.AdamStep(h, x.p, x.g, x.state[0], x.state[1], x.state[2])
}
