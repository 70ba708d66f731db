package optim

import (
	"fmt"
	"math"
)

// WarmRestarts lowers the learning rates along half a cosine and goes back to the base each time the period is over
// (Loshchilov and Hutter, SGDR, 2017), torch's CosineAnnealingWarmRestarts. The i-th period, from 0, has T0 TMult^i steps:
//
//	lr = etaMin + (base - etaMin) (1 + cos(pi s/T))/2     s steps into a period of T
//
// It is computed from the base: rates set from outside last until the next Step.
type WarmRestarts struct {
	schedule
	cfg WarmRestartsConfig
}

// WarmRestartsConfig of a WarmRestarts.
type WarmRestartsConfig struct {
	T0     int     // steps of the first period. Required
	TMult  int     // each period is so many times the one before; default 1
	EtaMin float64 // the lowest rate; 0 means 0
}

// NewWarmRestarts makes a schedule of opt's learning rates as they are now.
func NewWarmRestarts(opt Scheduled, cfg WarmRestartsConfig) (*WarmRestarts, error) {
	if cfg.TMult == 0 {
		cfg.TMult = 1
	}
	c := &WarmRestarts{cfg: cfg}
	err := c.open("WarmRestarts", opt, c.after,
		failIf(cfg.T0 <= 0, fmt.Sprintf("T0 is %d: want 1 or more steps", cfg.T0)),
		failIf(cfg.TMult < 1, fmt.Sprintf("TMult is %d: want 1 or more", cfg.TMult)),
		notNegative("EtaMin", cfg.EtaMin))
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *WarmRestarts) after(g, t int) float64 {
	period := c.cfg.T0
	for t >= period {
		t -= period
		period *= c.cfg.TMult
	}
	min := c.cfg.EtaMin
	return min + (c.base[g]-min)*(1+math.Cos(math.Pi*float64(t)/float64(period)))/2
}
