// The functions of unary.go that are made of exp (see exp.go): exp, sigmoid and its relatives. Each has its derivative
// below it. v is room for as many numbers as there are in x. Callers give slices of equal length.

package kernel

import "math"

func expOf[T Float](y, x []T, v []float64) {
	widen(v, x)
	exp[T](v)
	narrow(y, v)
}

// expMinus fills v with e^-x.
func expMinus[T Float](v []float64, x []T) {
	for i, x := range x {
		v[i] = -float64(x)
	}
	exp[T](v)
}

func sigmoidOf[T Float](y, x []T, v []float64) {
	expMinus(v, x)
	for i, e := range v {
		y[i] = T(1 / (1 + e))
	}
}

func sigmoidSlope[T Float](k []float64, y []T) {
	for i, v := range y {
		w := float64(v)
		k[i] = w * (1 - w)
	}
}

// tanhOf in float32 is 1 - 2/(e^2x + 1), which keeps its digits where |x| is not small, and four terms of the series at 0
// elsewhere, of which the next one is below 1e-11 of x.
func tanhOf[T Float](y, x []T, v []float64) {
	if !isFloat32[T]() {
		for i, v := range x {
			y[i] = T(math.Tanh(float64(v)))
		}
		return
	}
	for i, x := range x {
		v[i] = 2 * float64(x)
	}
	exp[T](v)
	for i, e := range v {
		w := float64(x[i])
		t := 1 - 2/(e+1)
		if math.Abs(w) < 1.0/16 {
			q := w * w
			t = w * (1 + q*(-1.0/3+q*(2.0/15+q*(-17.0/315))))
		}
		y[i] = T(t)
	}
}

func tanhSlope[T Float](k []float64, y []T) {
	for i, v := range y {
		k[i] = 1 - float64(v)*float64(v)
	}
}

// siluOf at -Inf is NaN (-Inf * 0), as in torch.
func siluOf[T Float](y, x []T, v []float64) {
	expMinus(v, x)
	for i, e := range v {
		y[i] = T(float64(x[i]) / (1 + e))
	}
}

func siluSlope[T Float](k []float64, x []T) {
	expMinus(k, x)
	for i, e := range k {
		k[i] = siluSlopeOf(float64(x[i]), 1/(1+e))
	}
}

// siluSlopeOf is the derivative at x, where s is sigmoid(x).
func siluSlopeOf(x, s float64) float64 { return s * (1 + x*(1-s)) }

// softplusThreshold is torch's: above it softplus(x) is x, and differs from it by less than float32 shows.
const softplusThreshold = 20

func softplusOf[T Float](y, x []T, v []float64) {
	widen(v, x)
	exp[T](v)
	for i, e := range v {
		switch {
		case x[i] > softplusThreshold:
			y[i] = x[i]
		case !isFloat32[T]():
			y[i] = T(math.Log1p(e))
		case e < 1e-3: // the next term is below 1e-9 of it
			y[i] = T(e * (1 - e*(0.5-e*(1.0/3))))
		default:
			y[i] = T(math.Log(1 + e))
		}
	}
}

func softplusSlope[T Float](k []float64, x []T) {
	expMinus(k, x)
	for i, e := range k {
		if k[i] = 1 / (1 + e); x[i] > softplusThreshold {
			k[i] = 1
		}
	}
}

// eluOf in float32 is a (e^x - 1) where that keeps its digits, and the series at 0 elsewhere.
func eluOf[T Float](y, x []T, a float64, v []float64) {
	if isFloat32[T]() {
		widen(v, x)
		exp[T](v)
		for i, e := range v {
			w, t := float64(x[i]), e-1
			if w > -1.0/16 { // the next term is below 2e-9 of it
				t = w * (1 + w*(1.0/2+w*(1.0/6+w*(1.0/24+w*(1.0/120)))))
			}
			v[i] = t
		}
	} else {
		for i, x := range x {
			v[i] = math.Expm1(float64(x))
		}
	}
	for i, t := range v {
		r := T(a * t)
		if x[i] > 0 {
			r = x[i]
		}
		y[i] = r
	}
}

func eluSlope[T Float](k []float64, x []T, a float64) {
	widen(k, x)
	exp[T](k)
	for i, e := range k {
		if k[i] = a * e; x[i] > 0 {
			k[i] = 1
		}
	}
}
