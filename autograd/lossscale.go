package autograd

// WithLossScale is WithScale for a factor that is divided out again before gradients are used, as amp.GradScaler does. A
// parameter remembers it with its gradient (see Param.GradScale): a pass that adds gradients of another loss scale to those
// that are there is refused.
func WithLossScale(f float64) BackwardOption { return func(p *pass) { p.loss = f } }

// GradScale is the loss scale that the gradient is multiplied by (see WithLossScale): 1 unless backward was told another.
func (p *Param) GradScale() float64 { return p.gradScale }

// SetGradScale says that the gradient is multiplied by that loss scale: after it was divided out, or when a saved gradient
// is put back.
func (p *Param) SetGradScale(f float64) {
	p.journalGrad()
	p.gradScale = f
}

// GradVersion rises with each change of the gradient: with two equal numbers it has stayed as it was.
func (p *Param) GradVersion() uint64 { return p.gradVersion }

// expectScale keeps gradients of different loss scales apart.
func (p *pass) expectScale(par *Param) {
	switch {
	case p.capture || p.s.m.Replay:
	case par.eaten && p.loss != 1:
		raisef("backward", p.s.path, "the gradient of %s is released inside backward, where a loss scale of %v cannot be divided out", par.name, p.loss)
	case !par.HasGrad():
		par.gradScale = p.loss
	case par.gradScale != p.loss:
		raisef("backward", p.s.path, "the gradient of %s was made with a loss scale of %v, this pass has %v: change it when gradients have been used and cleared, not before", par.name, par.gradScale, p.loss)
	}
}
