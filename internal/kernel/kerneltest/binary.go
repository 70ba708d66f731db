package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// layouts3 calls f for layouts of a destination and two operands of each shape: all of small shapes, a third of those of
// large ones.
func layouts3(f func(shape []int, dv, av, bv view)) {
	k := 0
	for _, shape := range Shapes() {
		vs := views(shape)
		for _, dv := range vs {
			for _, av := range []view{vs[0], vs[len(vs)-1]} {
				for _, bv := range append(views(shape), broadcasts(shape)...) {
					if k++; kernel.Elems(shape) < 2000 || k%3 == 0 {
						f(shape, dv, av, bv)
					}
				}
			}
		}
	}
}

// meet makes a few pairs of a and b equal, so that ties are met.
func meet[T kernel.Float](a, b []T) {
	for i := 0; i < min(len(a), len(b)); i += 5 {
		a[i] = b[i]
	}
}

// Zip tests arithmetic of two operands over pairs of layouts.
func Zip[T kernel.Float](t *testing.T, zip func(f kernel.Binary, dst, a, b kernel.Strided[T], lo, hi int)) {
	functions := []func(a, b T) T{
		kernel.BinarySub:     func(a, b T) T { return a - b },
		kernel.BinaryMul:     func(a, b T) T { return a * b },
		kernel.BinaryDiv:     func(a, b T) T { return a / b },
		kernel.BinaryMaximum: func(a, b T) T { return T(math.Max(float64(a), float64(b))) },
		kernel.BinaryMinimum: func(a, b T) T { return T(math.Min(float64(a), float64(b))) },
	}
	k := 0
	layouts3(func(shape []int, dv, av, bv view) {
		f := kernel.Binary(k % len(functions))
		k++
		a, b := Specials(Rand[T](av.n, 1), 1), Specials(Rand[T](bv.n, 2), 2)
		meet(a, b)
		if f == kernel.BinaryMaximum || f == kernel.BinaryMinimum { // math.Max(NaN, Inf) is Inf
			drop(a, math.NaN())
			drop(b, math.NaN())
		}
		at, ao, bo := offsets(dv, shape), offsets(av, shape), offsets(bv, shape)
		want := filled(dv.n, T(-7))
		for i := range at {
			want[at[i]] = functions[f](a[ao[i]], b[bo[i]])
		}
		got := elementwise(t, shape, dv, func() []T { return filled(dv.n, T(-7)) }, func(dst kernel.Strided[T], lo, hi int) {
			zip(f, dst, operand(av, a, shape), operand(bv, b, shape), lo, hi)
		})
		SameBits(t, want, got, fmt.Sprint(f, shape, dv.name, " = ", av.name, " , ", bv.name))
	})
	zipSpecials(t, zip)
}

// drop replaces every v, NaN or not.
func drop[T kernel.Float](x []T, v float64) {
	for i := range x {
		if w := float64(x[i]); w == v || w != w && v != v {
			x[i] = 1
		}
	}
}

// zipSpecials tests that NaN wins against everything, Inf included, and which zero is larger.
func zipSpecials[T kernel.Float](t *testing.T, zip func(f kernel.Binary, dst, a, b kernel.Strided[T], lo, hi int)) {
	nan, inf, zero := T(math.NaN()), T(math.Inf(1)), T(math.Copysign(0, -1))
	a, b := []T{nan, inf, nan, zero, 0, -inf}, []T{1, nan, inf, 0, zero, nan}
	for f, want := range map[kernel.Binary][]T{
		kernel.BinaryMaximum: {nan, nan, nan, 0, 0, nan},
		kernel.BinaryMinimum: {nan, nan, nan, zero, zero, nan},
	} {
		shape, got := []int{len(a)}, make([]T, len(a))
		zip(f, kernel.Contiguous(got, shape), kernel.Contiguous(a, shape), kernel.Contiguous(b, shape), 0, len(a))
		SameBits(t, want, got, f)
	}
}

// ZipBackward tests their gradients, against float64 for div, exactly for the others.
func ZipBackward[T kernel.Float](
	t *testing.T, backward func(f kernel.Binary, second bool, dst kernel.Strided[T], add bool, g, own, other kernel.Strided[T], lo, hi int),
) {
	share := func(own, other float64) float64 {
		switch {
		case own < other:
			return 0
		case own == other:
			return 0.5
		}
		return 1
	}
	functions := []struct {
		f      kernel.Binary
		second bool
		reads  bool // own
		slope  func(own, other float64) float64
	}{
		{kernel.BinaryMul, false, false, func(_, b float64) float64 { return b }},
		{kernel.BinaryMul, true, false, func(_, a float64) float64 { return a }},
		{kernel.BinaryDiv, false, false, func(_, b float64) float64 { return 1 / b }},
		{kernel.BinaryDiv, true, true, func(b, a float64) float64 { return -a / b / b }},
		{kernel.BinaryMaximum, false, true, share},
		{kernel.BinaryMaximum, true, true, share},
		{kernel.BinaryMinimum, false, true, func(own, other float64) float64 { return share(-own, -other) }},
		{kernel.BinaryMinimum, true, true, func(own, other float64) float64 { return share(-own, -other) }},
	}
	k := 0
	layouts3(func(shape []int, dv, pv, qv view) {
		fn := functions[k%len(functions)]
		k++
		add := k%3 == 0
		own, other := Rand[T](pv.n, 1), Rand[T](qv.n, 2)
		meet(own, other)
		g := Rand[T](kernel.Elems(shape), 3)
		old := dirty[T](dv.n, add)
		want := make([]float64, dv.n)
		for i, v := range old {
			want[i] = float64(v)
		}
		at, po, qo := offsets(dv, shape), offsets(pv, shape), offsets(qv, shape)
		for i := range at {
			v := float64(g[i]) * fn.slope(float64(own[po[i]]), float64(other[qo[i]]))
			if add {
				v += want[at[i]]
			}
			want[at[i]] = v
		}
		p := operand(pv, own, shape)
		if !fn.reads {
			p = kernel.Strided[T]{}
		}
		got := elementwise(t, shape, dv, func() []T { return clone(old) }, func(dst kernel.Strided[T], lo, hi int) {
			backward(fn.f, fn.second, dst, add, kernel.Contiguous(g, shape), p, operand(qv, other, shape), lo, hi)
		})
		Close(t, want, got, 4, 4, fmt.Sprint(fn.f, fn.second, shape, dv.name, " = ", pv.name, " , ", qv.name))
	})
}
