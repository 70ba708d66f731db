// The normal distribution, for the exact GELU, over a short row of x:
//
//	density(x) = exp(-x^2/2) / sqrt(2 pi)
//	cdf(x)     = erfc(-x/sqrt 2) / 2
//
// Where T is float64, math.Erfc gives the cdf. Where it is float32, erfc(z) = exp(-z^2) t P(2t-1) with t = 3/(3+z) and
// z >= 0, after W. J. Cody, "Rational Chebyshev approximation for the error function" (1969): one exp serves both
// results, and a small cdf has as many good digits as a large one. P is the Chebyshev series of degree 12 on 0 <= t <= 1,
// written in powers; its relative error is below 1e-9.

package kernel

import "math"

const invSqrt2Pi = 1 / (math.Sqrt2 * math.SqrtPi)

// normal fills cdf and density, as exactly as a T can hold.
func normal[T Float](cdf, density []float64, x []T) {
	cdf, density = cdf[:len(x)], density[:len(x)]
	for i, v := range x {
		density[i] = -0.5 * float64(v) * float64(v)
	}
	exp[T](density)
	if isFloat32[T]() {
		cdf32(cdf, density, x)
	} else {
		for i, v := range x {
			cdf[i] = 0.5 * math.Erfc(-float64(v)/math.Sqrt2)
		}
	}
	for i := range density {
		density[i] *= invSqrt2Pi
	}
}

// cdf32 fills cdf, where e holds exp(-x^2/2). Odd and even powers of u go separately, so that the two chains overlap, and
// the sign of x, which no predictor can know, chooses without a branch.
func cdf32[T Float](cdf, e []float64, x []T) {
	cdf, e = cdf[:len(x)], e[:len(x)]
	for i, v := range x {
		x := float64(v)
		t := 3 / (3 + math.Abs(x)*(1/math.Sqrt2))
		u := 2*t - 1
		v := u * u
		even := 0.35800230242766817 + v*(0.19674277926687531+v*(0.039842691688184918+v*(-0.00040478056785391708+
			v*(-0.00018087381493980814+v*(3.2912357443626306e-05+v*-3.4341596426568088e-06)))))
		odd := 0.29446481506229361 + v*(0.10348916310367262+v*(0.0089417900375107929+v*(-0.0010091414854236994+
			v*(8.8327807117150048e-05+v*-6.5519701358818239e-06))))
		tail := 0.5 * e[i] * t * (even + u*odd)
		negative := -(math.Float64bits(x) >> 63) // all ones or none
		cdf[i] = math.Float64frombits(math.Float64bits(tail)&negative | math.Float64bits(1-tail)&^negative)
	}
}
