// One step of Lion (Chen et al., 2023) in one pass. Reads g, reads and writes p and the moment m:
//
//	g  = gradScale g (with its sign turned if maximize)
//	u  = sign(beta1 m + (1-beta1) g)                  sign(0) = 0, the sign of NaN is NaN
//	p  = p (1 - lr weightDecay) - lr u
//	m  = beta2 m + (1-beta2) g
//
// Scalars are float64 rounded once to T, the arithmetic is T's.

package kernel

// Lion are the scalars of a step. GradScale has no default.
type Lion struct {
	LR, Beta1, Beta2, WeightDecay, GradScale float64
	Maximize                                 bool
}

// LionStep updates p and m. g is only read.
func LionStep[T Float](h *Lion, p, g, m []T) {
	p, m = p[:len(g)], m[:len(g)]
	k, shrink, lr := T(h.GradScale), T(1-h.LR*h.WeightDecay), T(h.LR)
	if h.Maximize {
		k = -k
	}
	b1, n1, b2, n2 := T(h.Beta1), T(1-h.Beta1), T(h.Beta2), T(1-h.Beta2)
	if lionFast(p, g, m, [7]T{k, lr, shrink, b1, n1, b2, n2}) {
		return
	}
	for i, d := range g {
		d *= k
		u := b1*m[i] + n1*d
		m[i] = b2*m[i] + n2*d
		w := p[i] * shrink
		switch {
		case u > 0:
			w -= lr
		case u < 0:
			w += lr
		case u != 0: // NaN
			w = u
		}
		p[i] = w
	}
}
