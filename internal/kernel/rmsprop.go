// One step of RMSprop (Hinton, 2012; centered: Graves, 2013), torch's rule, in one pass. Reads g; reads and writes p, the
// mean square v, and, where they are not nil, the mean avg (centered) and buf (momentum):
//
//	g    = gradScale g (with its sign turned if maximize) + weightDecay p
//	v    = alpha v + (1-alpha) g^2
//	avg  = alpha avg + (1-alpha) g                    d = sqrt(v - avg^2) + eps, or sqrt(v) + eps without avg
//	buf  = momentum buf + g/d                         p -= lr buf, or p -= lr g/d without buf
//
// Scalars are float64 rounded once to T, the arithmetic is T's, as in torch.

package kernel

import "math"

// RMSprop are the scalars of a step. GradScale has no default.
type RMSprop struct {
	LR, Alpha, Eps, WeightDecay, Momentum, GradScale float64
	Maximize                                         bool
}

// RMSpropStep updates p, v and, unless nil, avg and buf. g is only read.
func RMSpropStep[T Float](h *RMSprop, p, g, v, avg, buf []T) {
	p, v = p[:len(g)], v[:len(g)]
	k, decay := T(h.GradScale), T(h.WeightDecay)
	if h.Maximize {
		k = -k
	}
	a, na, eps, lr, mom := T(h.Alpha), T(1-h.Alpha), T(h.Eps), T(h.LR), T(h.Momentum)
	if rmspropFast(p, g, v, avg, buf, [7]T{k, lr, decay, a, na, eps, mom}) {
		return
	}
	for i, d := range g {
		d *= k
		if decay != 0 {
			d += decay * p[i]
		}
		vi := a*v[i] + na*d*d
		v[i] = vi
		if avg != nil {
			m := avg[i] + na*(d-avg[i])
			avg[i] = m
			vi -= m * m
		}
		d /= T(math.Sqrt(float64(vi))) + eps
		if buf != nil {
			d += mom * buf[i]
			buf[i] = d
		}
		p[i] -= lr * d
	}
}
