package kerneltest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Compare tests relations over pairs of layouts, with NaN, Inf and ties.
func Compare[T kernel.Float](t *testing.T, compare func(c kernel.Comparison, dst kernel.Strided[bool], a, b kernel.Strided[T], lo, hi int)) {
	relations := []func(a, b T) bool{
		kernel.CompareEq: func(a, b T) bool { return a == b },
		kernel.CompareNe: func(a, b T) bool { return a != b },
		kernel.CompareLt: func(a, b T) bool { return a < b },
		kernel.CompareLe: func(a, b T) bool { return a <= b },
	}
	k := 0
	layouts3(func(shape []int, dv, av, bv view) {
		c := kernel.Comparison(k % len(relations))
		k++
		a, b := Specials(Rand[T](av.n, 1), 1), Specials(Rand[T](bv.n, 2), 2)
		meet(a, b)
		truths(t, shape, dv, func(dst kernel.Strided[bool], lo, hi int) {
			compare(c, dst, operand(av, a, shape), operand(bv, b, shape), lo, hi)
		}, func(ao, bo int) bool { return relations[c](a[ao], b[bo]) }, av, bv)
	})
}

// Logic tests functions of truth values over pairs of layouts.
func Logic(t *testing.T, combine func(f kernel.Logic, dst, a, b kernel.Strided[bool], lo, hi int)) {
	functions := []func(a, b bool) bool{
		kernel.LogicAnd: func(a, b bool) bool { return a && b },
		kernel.LogicOr:  func(a, b bool) bool { return a || b },
		kernel.LogicNot: func(a, _ bool) bool { return !a },
	}
	k := 0
	layouts3(func(shape []int, dv, av, bv view) {
		f := kernel.Logic(k % len(functions))
		k++
		a, b := Truths(av.n, 1), Truths(bv.n, 2)
		truths(t, shape, dv, func(dst kernel.Strided[bool], lo, hi int) {
			combine(f, dst, operand(av, a, shape), operand(bv, b, shape), lo, hi)
		}, func(ao, bo int) bool { return functions[f](a[ao], b[bo]) }, av, bv)
	})
}

// truths runs a kernel by chunks and compares each element, and what lies between, with want of the operands' offsets.
func truths(t *testing.T, shape []int, dv view, run func(dst kernel.Strided[bool], lo, hi int), want func(ao, bo int) bool, av, bv view) {
	t.Helper()
	all, got := make([]bool, dv.n), make([]bool, dv.n)
	at, ao, bo := offsets(dv, shape), offsets(av, shape), offsets(bv, shape)
	for i := range at {
		all[at[i]] = want(ao[i], bo[i])
	}
	n := kernel.Elems(shape)
	for c := range kernel.Chunks(n) {
		lo, hi := kernel.Range(n, c)
		run(operand(dv, got, shape), lo, hi)
	}
	require.Equal(t, all, got, fmt.Sprint(shape, dv.name, " = ", av.name, " , ", bv.name))
}

// Truths gives n truth values that depend on seed only.
func Truths(n int, seed uint64) []bool {
	x := make([]bool, n)
	for i, v := range Rand[float32](n, seed) {
		x[i] = v > 0
	}
	return x
}
