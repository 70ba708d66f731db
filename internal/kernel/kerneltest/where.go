package kerneltest

import (
	"fmt"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Where tests dst = cond ? a : b over layouts of dst, cond and b; a is contiguous.
func Where[T kernel.Float](t *testing.T, where func(dst kernel.Strided[T], cond kernel.Strided[bool], a, b kernel.Strided[T], lo, hi int)) {
	layouts3(func(shape []int, dv, bv, cv view) {
		a, b, cond := Specials(Rand[T](kernel.Elems(shape), 1), 1), Specials(Rand[T](bv.n, 2), 2), Truths(cv.n, 3)
		want := filled(dv.n, T(-7))
		at, bo, co := offsets(dv, shape), offsets(bv, shape), offsets(cv, shape)
		for i := range at {
			if want[at[i]] = b[bo[i]]; cond[co[i]] {
				want[at[i]] = a[i]
			}
		}
		got := elementwise(t, shape, dv, func() []T { return filled(dv.n, T(-7)) }, func(dst kernel.Strided[T], lo, hi int) {
			where(dst, operand(cv, cond, shape), kernel.Contiguous(a, shape), operand(bv, b, shape), lo, hi)
		})
		SameBits(t, want, got, fmt.Sprint(shape, dv.name, " = ", cv.name, " ? : ", bv.name))
	})
}

// Fill tests dst = cond ? value : src.
func Fill[T kernel.Float](t *testing.T, fill func(dst, src kernel.Strided[T], cond kernel.Strided[bool], value T, lo, hi int)) {
	layouts3(func(shape []int, dv, sv, cv view) {
		src, cond := Specials(Rand[T](sv.n, 1), 1), Truths(cv.n, 3)
		want := filled(dv.n, T(-7))
		at, so, co := offsets(dv, shape), offsets(sv, shape), offsets(cv, shape)
		for i := range at {
			if want[at[i]] = src[so[i]]; cond[co[i]] {
				want[at[i]] = 42
			}
		}
		got := elementwise(t, shape, dv, func() []T { return filled(dv.n, T(-7)) }, func(dst kernel.Strided[T], lo, hi int) {
			fill(dst, operand(sv, src, shape), operand(cv, cond, shape), 42, lo, hi)
		})
		SameBits(t, want, got, fmt.Sprint(shape, dv.name, " = ", cv.name, " ? 42 : ", sv.name))
	})
}

// Keep tests dst = or += cond = when ? g : 0, where g, NaN or not, does not count where it is not kept.
func Keep[T kernel.Float](t *testing.T, keep func(dst kernel.Strided[T], add bool, g kernel.Strided[T], cond kernel.Strided[bool], when bool, lo, hi int)) {
	k := 0
	layouts3(func(shape []int, dv, gv, cv view) {
		k++
		add, when := k%3 == 0, k%2 == 0
		g, cond := Specials(Rand[T](gv.n, 1), 1), Truths(cv.n, 3)
		old := dirty[T](dv.n, add)
		want, at, from, co := clone(old), offsets(dv, shape), offsets(gv, shape), offsets(cv, shape)
		for i := range at {
			v := T(0)
			if cond[co[i]] == when {
				v = g[from[i]]
			}
			if add {
				v += want[at[i]]
			}
			want[at[i]] = v
		}
		got := elementwise(t, shape, dv, func() []T { return clone(old) }, func(dst kernel.Strided[T], lo, hi int) {
			keep(dst, add, operand(gv, g, shape), operand(cv, cond, shape), when, lo, hi)
		})
		SameBits(t, want, got, fmt.Sprint(shape, dv.name, " = ", cv.name, " ? : ", gv.name))
	})
}
