// One step of SGD, torch's rule, in one pass. Reads and writes p and the momentum buffer, reads g:
//
//	g    = gradScale g (with its sign turned if maximize) + weightDecay p
//	buf  = g at the first step, then momentum buf + (1-dampening) g
//	p   -= lr (nesterov ? g + momentum buf : buf)         without momentum: lr g
//
// Scalars are float64 rounded once to T, the arithmetic is T's, as in torch.

package kernel

// SGD are the scalars of a step. Momentum 0 means no buffer, WeightDecay 0 none.
type SGD struct {
	LR, Momentum, Dampening, WeightDecay float64
	Nesterov, Maximize                   bool
	// First: the buffer holds nothing yet and is filled with the gradient, undampened.
	First bool
	// GradScale multiplies the gradient: a clip coefficient, an inverse loss scale. It has no default.
	GradScale float64
}

// SGDStep updates p and, with momentum, buf. g is only read.
func SGDStep[T Float](h *SGD, p, g, buf []T) {
	p = p[:len(g)]
	k, lr, decay := T(h.GradScale), T(h.LR), T(h.WeightDecay)
	if h.Maximize {
		k = -k
	}
	if h.Momentum != 0 {
		sgdMomentum(h, p, g, buf, k, lr, decay)
		return
	}
	if sgdFast(p, g, [3]T{k, lr, decay}) {
		return
	}
	for i, d := range g {
		d *= k
		if decay != 0 {
			d += decay * p[i]
		}
		p[i] -= lr * d
	}
}

func sgdMomentum[T Float](h *SGD, p, g, buf []T, k, lr, decay T) {
	p, buf = p[:len(g)], buf[:len(g)]
	momentum, keep := T(h.Momentum), T(1-h.Dampening)
	first, nesterov := h.First, h.Nesterov
	if !first && sgdMomentumFast(p, g, buf, [5]T{k, lr, decay, momentum, keep}, nesterov) {
		return
	}
	for i, d := range g {
		d *= k
		if decay != 0 {
			d += decay * p[i]
		}
		m := d
		if !first {
			m = momentum*buf[i] + keep*d
		}
		buf[i] = m
		if nesterov {
			m = d + momentum*m
		}
		p[i] -= lr * m
	}
}
