package amp

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/optim"
	"github.com/thimble-ml/thimble/tensor"
)

// GradScaler is dynamic loss scaling (Micikevicius et al., 2018), torch.amp.GradScaler: gradients that Float16 would round
// to 0 are lifted by a factor that backward starts from and the update divides out. The factor follows what fits: it falls
// when gradients overflow, in which case the update is skipped, and rises after some updates without that.
//
//	scaler.Backward(s, loss)                 for each loss and micro-batch of an update
//	norm, err := scaler.ClipGradNorm(s, opt, 1)        if at all
//	stepped, err := scaler.Step(s, opt)      for each optimizer
//	opt.ZeroGrad(s)
//	err = scaler.Update(s)                   once
//
// Each optimizer is ready, then unscaled if Unscale is called, then stepped, and with Update ready again. What a GradScaler
// knows is put back when the step that changed it fails, and by a dry run, which sees finite gradients only.
type GradScaler struct {
	cfg GradScalerConfig
	mark
}

// GradScalerConfig of a GradScaler. Zero values are torch's defaults; MinScale and MaxSkips torch does not have.
type GradScalerConfig struct {
	// InitScale is the factor at first. Default 65536.
	InitScale float64
	// GrowthFactor multiplies it after GrowthInterval updates in a row without overflow: more than 1, default 2.
	GrowthFactor float64
	// BackoffFactor multiplies it when gradients overflow: between 0 and 1, default 0.5.
	BackoffFactor float64
	// GrowthInterval is how many updates that takes. Default 2000.
	GrowthInterval int
	// MinScale is the least factor. Default 1: below that, scaling would make gradients smaller than they are.
	MinScale float64
	// MaxSkips is how many updates in a row may be skipped before Step gives an error: by then the factor is not to blame.
	// Default 20; from 65536 to 1 it takes 16. Negative: any number.
	MaxSkips int
	// Disabled makes a scaler that does nothing: Scale is 1, and Step is the optimizer's. BFloat16 needs no scaling.
	Disabled bool
}

// mark is what changes: a failed step puts it back as one.
type mark struct {
	scale   float64 // a float32
	tracker int     // updates without overflow since the factor changed
	skips   int     // windows in a row with one
	skipped int     // updates in all
	last    *Skip
	turns   []turn // of optimizers since the last Update; not modified, but replaced
}

// turn is where an optimizer stands in the running window.
type turn struct {
	opt     optim.Optimizer
	stage   stage
	clipped bool
	clip    float64           // its factor, 1 if not clipped
	grads   *optim.GradReport // nil: not measured
	version uint64            // of the gradients when they were
}

type stage uint8

const (
	ready stage = iota
	unscaled
	stepped
)

// Skip tells of an update that was skipped.
type Skip struct {
	// Params names the parameters whose gradients were not finite.
	Params []string
	// Index is that of the first NaN or Inf in the gradient of the first of them, Value what it is.
	Index int
	Value float64
	// Scale is the factor that the gradients were multiplied by.
	Scale float64
}

// String says it in a sentence.
func (k Skip) String() string {
	text := fmt.Sprintf("element %d of the gradient of %s is %v at a loss scale of %v", k.Index, k.Params[0], k.Value, k.Scale)
	if n := len(k.Params) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more gradients are not finite", n)
	}
	return text
}

// NewGradScaler makes a scaler. Errors name the field and its value; a disabled scaler's other fields are not looked at.
func NewGradScaler(cfg GradScalerConfig) (*GradScaler, error) {
	if cfg.Disabled {
		return &GradScaler{cfg: cfg, mark: mark{scale: 1}}, nil
	}
	for _, d := range []struct {
		field *float64
		value float64
	}{{&cfg.InitScale, 1 << 16}, {&cfg.GrowthFactor, 2}, {&cfg.BackoffFactor, 0.5}, {&cfg.MinScale, 1}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	if cfg.GrowthInterval == 0 {
		cfg.GrowthInterval = 2000
	}
	if cfg.MaxSkips == 0 {
		cfg.MaxSkips = 20
	}
	g := &GradScaler{cfg: cfg, mark: mark{scale: float64(float32(cfg.InitScale))}}
	if err := g.cfg.check(g.scale); err != nil {
		return nil, fmt.Errorf("amp: NewGradScaler: %w", err)
	}
	return g, nil
}

func (c *GradScalerConfig) check(scale float64) error {
	switch {
	case !(c.MinScale > 0) || math.IsInf(c.MinScale, 0):
		return fmt.Errorf("MinScale is %v: want a finite number above 0", c.MinScale)
	case !(c.GrowthFactor > 1) || math.IsInf(c.GrowthFactor, 0):
		return fmt.Errorf("GrowthFactor is %v: want a finite number above 1", c.GrowthFactor)
	case !(c.BackoffFactor > 0 && c.BackoffFactor < 1):
		return fmt.Errorf("BackoffFactor is %v: want more than 0 and less than 1", c.BackoffFactor)
	case c.GrowthInterval < 1:
		return fmt.Errorf("GrowthInterval is %d: want 1 or more updates", c.GrowthInterval)
	}
	return c.checkScale(scale)
}

func (c *GradScalerConfig) checkScale(scale float64) error {
	if scale >= c.MinScale && scale <= math.MaxFloat32 {
		return nil
	}
	return fmt.Errorf("the scale is %v: want one from MinScale, %v, to the largest float32", scale, c.MinScale)
}

// Scale is the factor of losses, 1 if the scaler is disabled. It changes in Update only.
func (g *GradScaler) Scale() float64 { return g.scale }

// Skipped is how many updates of optimizers were skipped.
func (g *GradScaler) Skipped() int { return g.skipped }

// LastSkip tells of the update that was skipped last; false if none was.
func (g *GradScaler) LastSkip() (Skip, bool) {
	if g.last == nil {
		return Skip{}, false
	}
	return *g.last, true
}

// Backward is loss.Backward with gradients multiplied by Scale, exactly where it starts: no operation is added. Options are
// those of Backward; with a weight of the loss, autograd.WithScale, gradients are multiplied by both. With
// autograd.WithGradNorms in the last Backward of an update, what Step and ClipGradNorm look for is found as gradients are
// made. Gradients that are there already must have been made with the same Scale.
func (g *GradScaler) Backward(s *autograd.Scope, loss *autograd.Value, opts ...autograd.BackwardOption) {
	if loss.DType() == tensor.Float16 && g.scale > 65504 {
		err := fmt.Errorf("the loss is float16, which does not hold the loss scale of %v: cast it to float32 before (ops.Cast), as losses under autocast are", g.scale)
		panic(&autograd.Error{Op: "backward", Scope: s.Path(), In: []tensor.Spec{loss.Spec()}, Err: err})
	}
	loss.Backward(s, slices.Concat(opts, []autograd.BackwardOption{autograd.WithLossScale(g.scale)})...)
}

// Unscale divides the gradients of opt by Scale, in place, for who looks at them or changes them before Step; Step then does
// not do it again. It is a pass of its own, which the other ways do without. Once in a window, and before Step.
func (g *GradScaler) Unscale(s *autograd.Scope, opt optim.Optimizer) error {
	if g.cfg.Disabled {
		return nil
	}
	if err := g.unscale(s, opt); err != nil {
		return fmt.Errorf("amp: GradScaler.Unscale: %w", err)
	}
	return nil
}

func (g *GradScaler) unscale(s *autograd.Scope, opt optim.Optimizer) error {
	t := g.turn(opt)
	if t.stage == unscaled {
		return errors.New("Unscale has already been called for this optimizer since the last Update")
	}
	if err := g.measure(s, &t); err != nil {
		return err
	}
	if err := divide(s, opt, 1/g.scale); err != nil {
		return err
	}
	t.stage = unscaled
	g.put(s, t)
	return nil
}

// divide multiplies the gradients, which are rid of their loss scale by that.
func divide(s *autograd.Scope, opt optim.Optimizer, factor float64) error {
	if err := optim.ScaleGrad(s, opt.Params(), factor); err != nil {
		return err
	}
	for _, p := range opt.Params() {
		if p.HasGrad() {
			p.SetGradScale(1)
		}
	}
	return nil
}

// ClipGradNorm is optim.ClipGradNorm of all gradients of opt, whose norm, before clipping and without the loss scale, it
// returns. It reads the gradients, once together with what Step looks for, and changes none: Step multiplies by the
// coefficient as it divides by Scale. If a gradient is not finite, neither is the norm, and Step skips the update; a
// disabled scaler gives an error then. Call it after the last Backward.
func (g *GradScaler) ClipGradNorm(s *autograd.Scope, opt optim.Optimizer, maxNorm float64) (norm float64, err error) {
	if norm, err = g.clip(s, opt, maxNorm); err != nil {
		return norm, fmt.Errorf("amp: GradScaler.ClipGradNorm: %w", err)
	}
	return norm, nil
}

func (g *GradScaler) clip(s *autograd.Scope, opt optim.Optimizer, maxNorm float64) (norm float64, err error) {
	if !(maxNorm >= 0) {
		return 0, fmt.Errorf("the bound is %v: want 0 or more", maxNorm)
	}
	t := g.turn(opt)
	t.grads, t.clipped = nil, false // unscaled gradients may have been changed since they were measured
	if err := g.measure(s, &t); err != nil {
		return 0, err
	}
	norm = t.grads.Norm
	if t.stage == ready {
		norm /= g.scale
	}
	bad := t.grads.NonFinite
	switch {
	case len(bad) > 0 && g.cfg.Disabled:
		return norm, errors.New(g.describe(bad).String())
	case len(bad) == 0:
		t.clip, t.clipped = math.Min(1, maxNorm/(norm+1e-6)), true
	}
	g.put(s, t)
	return norm, nil
}

// turn is where opt stands.
func (g *GradScaler) turn(opt optim.Optimizer) turn {
	for _, t := range g.turns {
		if t.opt == opt {
			return t
		}
	}
	return turn{opt: opt, clip: 1}
}

// put notes where an optimizer stands.
func (g *GradScaler) put(s *autograd.Scope, t turn) {
	g.journal(s)
	turns := slices.DeleteFunc(slices.Clone(g.turns), func(u turn) bool { return u.opt == t.opt })
	g.turns = append(turns, t)
}

func (g *GradScaler) journal(s *autograd.Scope) { autograd.Journal(s.Session(), &g.mark) }

// measure looks at the gradients of an optimizer, unless it has, and refuses those that this scaler must not use.
func (g *GradScaler) measure(s *autograd.Scope, t *turn) error {
	switch {
	case t.opt == nil:
		return errors.New("the optimizer is nil")
	case t.stage == stepped:
		return errors.New("Step has already been called for this optimizer since the last Update")
	}
	want, version := g.scale, uint64(0)
	if t.stage == unscaled {
		want = 1
	}
	for i, p := range t.opt.Params() {
		version += p.GradVersion()
		switch {
		case p.Spec().DType == tensor.Float16 && !g.cfg.Disabled:
			return fmt.Errorf("parameter %d, %s, is float16, and so is its gradient, which would underflow without its loss scale: want parameters in float32 and s.WithAutocast(amp.Float16), or a model in bfloat16, which needs no scaler", i, p.Name())
		case p.HasGrad() && p.GradScale() != want:
			return fmt.Errorf("the gradient of parameter %d, %s, was made with a loss scale of %v: want %v, the scaler's (GradScaler.Backward makes them; clear those of an earlier window with ZeroGrad)", i, p.Name(), p.GradScale(), want)
		}
	}
	if t.grads != nil && (t.stage == unscaled || t.version == version) {
		return nil
	}
	if t.clipped {
		return errors.New("the gradients have changed since ClipGradNorm: call it after the last Backward")
	}
	r, err := optim.MeasureGrads(s, t.opt.Params())
	t.grads, t.version = &r, version
	return err
}

// describe tells of gradients that are not finite.
func (g *GradScaler) describe(bad []optim.NonFinite) *Skip {
	k := &Skip{Index: bad[0].Index, Value: bad[0].Value, Scale: g.scale}
	for _, b := range bad {
		k.Params = append(k.Params, b.Param.Name())
	}
	return k
}
