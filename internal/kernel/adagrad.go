// One step of Adagrad (Duchi, Hazan and Singer, 2011), torch's rule, in one pass. Reads g, reads and writes p and the sum
// of squares:
//
//	g    = gradScale g (with its sign turned if maximize) + weightDecay p
//	sum += g^2
//	p   -= rate g/(sqrt(sum) + eps)                   rate = lr/(1 + (step-1) lrDecay), the caller's
//
// Scalars are float64 rounded once to T, the arithmetic is T's, as in torch.

package kernel

import "math"

// Adagrad are the scalars of a step. GradScale has no default.
type Adagrad struct {
	Rate, Eps, WeightDecay, GradScale float64
	Maximize                          bool
}

// AdagradStep updates p and sum. g is only read.
func AdagradStep[T Float](h *Adagrad, p, g, sum []T) {
	p, sum = p[:len(g)], sum[:len(g)]
	k, decay, eps, rate := T(h.GradScale), T(h.WeightDecay), T(h.Eps), T(h.Rate)
	if h.Maximize {
		k = -k
	}
	if adagradFast(p, g, sum, [4]T{k, rate, decay, eps}) {
		return
	}
	for i, d := range g {
		d *= k
		if decay != 0 {
			d += decay * p[i]
		}
		s := sum[i] + d*d
		sum[i] = s
		p[i] -= rate * (d / (T(math.Sqrt(float64(s))) + eps))
	}
}
