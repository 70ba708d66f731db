package optim

import "fmt"

// StepDecay multiplies the learning rates by Gamma after every Size steps, torch's StepLR. Rates set from outside persist
// and are multiplied in their turn.
type StepDecay struct {
	schedule
	cfg StepDecayConfig
}

// StepDecayConfig of a StepDecay. Both are required.
type StepDecayConfig struct {
	Size  int     // steps between two cuts
	Gamma float64 // factor, above 0; torch's default is 0.1
}

// NewStepDecay makes a schedule of opt's learning rates as they are now.
func NewStepDecay(opt Scheduled, cfg StepDecayConfig) (*StepDecay, error) {
	c := &StepDecay{cfg: cfg}
	err := c.open("StepDecay", opt, c.after,
		failIf(cfg.Size <= 0, fmt.Sprintf("Size is %d: want 1 or more steps", cfg.Size)),
		positive("Gamma", cfg.Gamma))
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (c *StepDecay) after(g, t int) float64 {
	if t%c.cfg.Size == 0 {
		return c.opt.LR(g) * c.cfg.Gamma
	}
	return c.opt.LR(g)
}

// Exponential multiplies the learning rates by Gamma after every step, torch's ExponentialLR.
type Exponential struct {
	schedule
	gamma float64
}

// NewExponential makes a schedule of opt's learning rates as they are now; gamma is above 0.
func NewExponential(opt Scheduled, gamma float64) (*Exponential, error) {
	c := &Exponential{gamma: gamma}
	if err := c.open("Exponential", opt, c.after, positive("gamma", gamma)); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Exponential) after(g, _ int) float64 { return c.opt.LR(g) * c.gamma }
