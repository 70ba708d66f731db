package optim

import (
	"fmt"
	"math"
)

// CosineAnnealing lowers each group's learning rate along half a cosine (Loshchilov and Hutter, 2017), from the rate it
// has when the schedule is made to EtaMin after TMax steps:
//
//	lr(t) = etaMin + (base - etaMin) (1 + cos(pi t/tMax))/2
//
// As in torch it is computed from the rate that the group has now, lr(t)/lr(t-1) at a time, so that rates set from
// outside persist and shrink along the same curve. Past TMax it rises again, with period 2 TMax, unless Clamp is set. An
// EtaMin above the base is legal: the rate then rises first.
type CosineAnnealing struct {
	schedule
	cfg CosineConfig
}

// CosineConfig says where a CosineAnnealing goes.
type CosineConfig struct {
	// TMax is after how many steps, of the optimizer, the rate is at EtaMin. Required.
	TMax int
	// EtaMin is the lowest rate; 0, torch's default too, means 0.
	EtaMin float64
	// Clamp leaves the rates alone from TMax on, where torch lets them rise.
	Clamp bool
}

// NewCosineAnnealing makes a schedule of opt's learning rates as they are now. It changes nothing before the first Step.
func NewCosineAnnealing(opt Scheduled, cfg CosineConfig) (*CosineAnnealing, error) {
	c := &CosineAnnealing{cfg: cfg}
	err := c.open("CosineAnnealing", opt, c.after,
		failIf(cfg.TMax <= 0, fmt.Sprintf("TMax is %d: want 1 or more", cfg.TMax)),
		notNegative("EtaMin", cfg.EtaMin))
	if err != nil {
		return nil, err
	}
	return c, nil
}

// after is the rate of group g at step t, t-1 being behind it.
func (c *CosineAnnealing) after(g, t int) float64 {
	n, min, lr := c.cfg.TMax, c.cfg.EtaMin, c.opt.LR(g)
	angle := func(t int) float64 { return math.Pi * float64(t) / float64(n) }
	switch {
	case c.cfg.Clamp && t > n:
		return lr
	case (t-1-n)%(2*n) == 0: // just past the lowest point, where the quotient below is 0/0
		return lr + (c.base[g]-min)*(1-math.Cos(angle(1)))/2
	}
	return (1+math.Cos(angle(t)))/(1+math.Cos(angle(t-1)))*(lr-min) + min
}
