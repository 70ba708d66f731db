package kerneltest

import (
	"math"
	"math/rand/v2"
	"unsafe"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Sizes are lengths around everything that a loop may cut at: unrolling, bytes of a mask, chunks.
func Sizes() []int {
	const c = kernel.ChunkSize
	return []int{0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 63, 64, 65, 511, 512, 513, c - 1, c, c + 1, 2*c + 9}
}

// Rand gives n normal values that depend on seed only.
func Rand[T kernel.Float](n int, seed uint64) []T {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]T, n)
	for i := range x {
		x[i] = T(r.NormFloat64())
	}
	return x
}

// Specials overwrites about every tenth value, and the first and last, with what arithmetic trips over.
func Specials[T kernel.Float](x []T, seed uint64) []T {
	r := rand.New(rand.NewPCG(seed, 2))
	for i := range x {
		if i == 0 || i == len(x)-1 || r.IntN(10) == 0 {
			x[i] = special[T](r.IntN(8))
		}
	}
	return x
}

func special[T kernel.Float](k int) T {
	tiny, huge := math.SmallestNonzeroFloat64, math.MaxFloat64
	if unsafe.Sizeof(T(0)) == 4 {
		tiny, huge = math.SmallestNonzeroFloat32, math.MaxFloat32
	}
	return T([]float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, tiny, -tiny, huge}[k])
}

// Indices gives n indices below limit.
func Indices[I kernel.Index](n, limit int, seed uint64) []I {
	r := rand.New(rand.NewPCG(seed, 3))
	x := make([]I, n)
	for i := range x {
		x[i] = I(r.IntN(limit))
	}
	return x
}

// total is a sum with the rounding errors kept aside (Neumaier, 1974), so that references are better than kernels.
type total struct{ sum, lost float64 }

func (t *total) add(v float64) {
	s := t.sum + v
	if math.Abs(t.sum) >= math.Abs(v) {
		t.lost += (t.sum - s) + v
	} else {
		t.lost += (v - s) + t.sum
	}
	t.sum = s
}

func (t *total) value() float64 {
	if math.IsInf(t.sum, 0) {
		return t.sum
	}
	return t.sum + t.lost
}

// largest is the largest absolute value.
func largest(x []float64) (m float64) {
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

func clone[T any](x []T) []T { return append([]T(nil), x...) }

// filled is n times v: what a destination holds that a kernel must overwrite.
func filled[T any](n int, v T) []T {
	x := make([]T, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// dirty is a destination for filling (NaN all over) or for adding (values).
func dirty[T kernel.Float](n int, add bool) []T {
	if add {
		return Rand[T](n, 99)
	}
	return filled(n, T(math.NaN()))
}

// plus is want, on top of old where the kernel adds.
func plus[T kernel.Float](want []float64, old []T, add bool) []float64 {
	if !add {
		return want
	}
	sum := make([]float64, len(want))
	for i := range sum {
		sum[i] = float64(old[i]) + want[i]
	}
	return sum
}
