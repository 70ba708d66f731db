// One step of Adam (Kingma and Ba, 2015) or AdamW (Loshchilov and Hutter, 2019), torch's rule, in one pass. Reads and
// writes p, the moments m and v, and top with AMSGrad, reads g:
//
//	g   = gradScale g (with its sign turned if maximize)
//	p   = p (1 - lr weightDecay)                     AdamW, first of all
//	g   = g + weightDecay p                          Adam, into the moments
//	m   = beta1 m + (1-beta1) g
//	v   = beta2 v + (1-beta2) g^2
//	p  -= lr/c1 m / (sqrt(v)/sqrt(c2) + eps)         c1 = 1 - beta1^step, c2 = 1 - beta2^step
//
// AMSGrad (Reddi, Kale and Kumar, 2018) has top = max(top, v) stand in for v in the last line.
//
// Scalars are float64 rounded once to T, the arithmetic is T's, as in torch.

package kernel

import "math"

// Adam are the scalars of a step.
type Adam struct {
	LR, Beta1, Beta2, Eps, WeightDecay float64
	// Correct1 and Correct2 are 1 - Beta1^step and 1 - Beta2^step.
	Correct1, Correct2 float64
	// L2 adds WeightDecay p to the gradient (Adam) instead of shrinking p (AdamW).
	L2, Maximize bool
	// GradScale multiplies the gradient: a clip coefficient, an inverse loss scale. It has no default.
	GradScale float64
}

// AdamStep updates p, m, v and, unless it is nil, top (AMSGrad). g is only read.
func AdamStep[T Float](h *Adam, p, g, m, v, top []T) {
	p, m, v = p[:len(g)], m[:len(g)], v[:len(g)]
	k, shrink, l2 := T(h.GradScale), T(1), T(0)
	if h.Maximize {
		k = -k
	}
	if h.L2 {
		l2 = T(h.WeightDecay)
	} else {
		shrink = T(1 - h.LR*h.WeightDecay)
	}
	b1, n1, b2, n2 := T(h.Beta1), T(1-h.Beta1), T(h.Beta2), T(1-h.Beta2)
	step, root, eps := T(h.LR/h.Correct1), T(1/math.Sqrt(h.Correct2)), T(h.Eps)
	if adamFast(p, g, m, v, top, [9]T{k, b1, n1, b2, n2, step, root, eps, shrink}, l2) {
		return
	}
	for i, d := range g {
		w := p[i]
		d *= k
		if l2 != 0 {
			d += l2 * w
		}
		mi := b1*m[i] + n1*d
		vi := b2*v[i] + n2*d*d
		m[i], v[i] = mi, vi
		if top != nil {
			vi = max(top[i], vi)
			top[i] = vi
		}
		p[i] = w*shrink - step*(mi/(T(math.Sqrt(float64(vi)))*root+eps))
	}
}
