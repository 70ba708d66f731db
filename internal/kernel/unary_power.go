// The functions of unary.go that are not made of exp: powers, logarithm, modulus, circular functions, erf. Each has its
// derivative below it. Callers give slices of equal length.

package kernel

import "math"

func shiftOf[T Float](y, x []T, a T) {
	for i, v := range x {
		y[i] = v + a
	}
}

func squareOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = v * v
	}
}

func squareSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		k[i] = 2 * float64(v)
	}
}

func reciprocalOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = 1 / v
	}
}

func reciprocalSlope[T Float](k []float64, y []T) {
	for i, v := range y {
		k[i] = -float64(v) * float64(v)
	}
}

func sqrtOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Sqrt(float64(v)))
	}
}

func sqrtSlope[T Float](k []float64, y []T) {
	for i, v := range y {
		k[i] = 0.5 / float64(v)
	}
}

func rsqrtOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(1 / math.Sqrt(float64(v)))
	}
}

func rsqrtSlope[T Float](k []float64, y []T) {
	for i, v := range y {
		w := float64(v)
		k[i] = -0.5 * w * w * w
	}
}

// powOf does the squares and cubes that formulas are full of by multiplication.
func powOf[T Float](y, x []T, a float64, v []float64) {
	switch a {
	case 2:
		squareOf(y, x)
	case 3:
		for i, v := range x {
			w := float64(v)
			y[i] = T(w * w * w)
		}
	default:
		power(v, x, a)
		narrow(y, v)
	}
}

// powSlope is 0 for a = 0 whatever x is, as in torch: x^0 is a constant.
func powSlope[T Float](k []float64, x []T, a float64) {
	switch a {
	case 0:
		clear(k)
	case 2:
		squareSlope(k, x)
	case 3:
		for i, v := range x {
			k[i] = 3 * float64(v) * float64(v)
		}
	default:
		power(k, x, a-1)
		for i := range k {
			k[i] *= a
		}
	}
}

// power fills v with x^a. In float32 it is e^(a ln x) where x is positive, a quarter of the time of math.Pow, which knows
// what to do with the other x.
func power[T Float](v []float64, x []T, a float64) {
	short := isFloat32[T]() && a != 0
	if short {
		for i, x := range x {
			v[i] = a * math.Log(float64(x))
		}
		exp[T](v)
	}
	for i, x := range x {
		if !short || !(x > 0) {
			v[i] = math.Pow(float64(x), a)
		}
	}
}

func logOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Log(float64(v)))
	}
}

func logSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		k[i] = 1 / float64(v)
	}
}

func absOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Abs(float64(v)))
	}
}

// absSlope branches on zero and NaN only, which are rare, and not on the sign.
func absSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		w := float64(v)
		s := math.Copysign(1, w)
		if w == 0 || w != w {
			s = w
		}
		k[i] = s
	}
}

func sinOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Sin(float64(v)))
	}
}

func sinSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		k[i] = math.Cos(float64(v))
	}
}

func cosOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Cos(float64(v)))
	}
}

func cosSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		k[i] = -math.Sin(float64(v))
	}
}

func erfOf[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Erf(float64(v)))
	}
}

func erfSlope[T Float](k []float64, x []T) {
	for i, v := range x {
		k[i] = -float64(v) * float64(v)
	}
	exp[T](k)
	for i := range k {
		k[i] *= 2 / math.SqrtPi
	}
}
