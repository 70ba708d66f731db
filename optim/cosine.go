package optim

import (
	"errors"
	"fmt"
	"math"

	"github.com/thimble-ml/thimble/autograd"
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
	opt  Scheduled
	cfg  CosineConfig
	base []float64
	next []float64 // room
	t    int       // steps taken
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
	err := first(
		failIf(opt == nil, "the optimizer is nil"),
		failIf(cfg.TMax <= 0, fmt.Sprintf("TMax is %d: want 1 or more", cfg.TMax)),
		notNegative("EtaMin", cfg.EtaMin),
	)
	if err != nil {
		return nil, fmt.Errorf("optim: NewCosineAnnealing: %w", err)
	}
	c := &CosineAnnealing{opt: opt, cfg: cfg, next: make([]float64, opt.Groups())}
	c.base = c.LR()
	return c, nil
}

// Step moves to the next rates. Call it once after each Step of the optimizer, not after each micro-batch; after one
// that was skipped, do not. Within a step that fails, and in a dry run, it is put back.
func (c *CosineAnnealing) Step() error {
	t := c.t + 1
	for g := range c.next {
		c.next[g] = c.after(g, t)
		if err := notNegative("LR", c.next[g]); err != nil { // set from outside below EtaMin, then on the way up
			return fmt.Errorf("optim: CosineAnnealing.Step: step %d, group %d, with EtaMin %v: %w", t, g, c.cfg.EtaMin, err)
		}
	}
	for g, lr := range c.next {
		if err := c.opt.SetLR(g, lr); err != nil {
			return fmt.Errorf("optim: CosineAnnealing.Step: %w", err)
		}
	}
	autograd.Journal(c.opt.Session(), &c.t)
	c.t = t
	return nil
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

// LR are the learning rates of the groups now.
func (c *CosineAnnealing) LR() []float64 {
	lr := make([]float64, c.opt.Groups())
	for g := range lr {
		lr[g] = c.opt.LR(g)
	}
	return lr
}

// CosineState is where a CosineAnnealing stands, to be saved beside the optimizer's. TMax, EtaMin and Clamp are not part
// of it: they are the constructor's.
type CosineState struct {
	Step int       // steps taken
	Base []float64 // rates that the curve starts from
	LR   []float64 // rates now
}

// State is a copy of where c stands.
func (c *CosineAnnealing) State() CosineState {
	return CosineState{Step: c.t, Base: append([]float64(nil), c.base...), LR: c.LR()}
}

// Load goes on from st. It sets the optimizer's learning rates too, from which the next are computed, so the order of
// loading optimizer and schedule does not matter.
func (c *CosineAnnealing) Load(st CosineState) error {
	if err := c.accepts(st); err != nil {
		return fmt.Errorf("optim: CosineAnnealing.Load: %w", err)
	}
	for g, lr := range st.LR {
		if err := c.opt.SetLR(g, lr); err != nil {
			return fmt.Errorf("optim: CosineAnnealing.Load: %w", err)
		}
	}
	autograd.Journal(c.opt.Session(), &c.t)
	autograd.Journal(c.opt.Session(), &c.base)
	c.t, c.base = st.Step, append([]float64(nil), st.Base...)
	return nil
}

func (c *CosineAnnealing) accepts(st CosineState) error {
	n := c.opt.Groups()
	switch {
	case st.Step < 0:
		return fmt.Errorf("Step is %d: want 0 or more", st.Step)
	case len(st.Base) != n || len(st.LR) != n:
		return fmt.Errorf("the state has %d base rates and %d rates: want %d, one a group", len(st.Base), len(st.LR), n)
	}
	for g := range n {
		if err := errors.Join(notNegative("Base", st.Base[g]), notNegative("LR", st.LR[g])); err != nil {
			return fmt.Errorf("group %d: %w", g, err)
		}
	}
	return nil
}
