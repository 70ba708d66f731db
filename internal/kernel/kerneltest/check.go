package kerneltest

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Eps is the distance from 1 to the next value of T.
func Eps[T kernel.Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-23
	}
	return 0x1p-52
}

// normal is the smallest number of T that is not subnormal.
func normal[T kernel.Float]() float64 {
	if unsafe.Sizeof(T(0)) == 4 {
		return 0x1p-126
	}
	return 0x1p-1022
}

// Close fails unless every |got - want| <= (rel |want| + abs) Eps, where a subnormal want counts as the smallest normal
// number: its units are no smaller. NaN matches NaN, and an infinity itself; a want that T cannot hold matches Inf.
func Close[T kernel.Float](t *testing.T, want []float64, got []T, rel, abs float64, msg ...any) {
	t.Helper()
	require.Len(t, got, len(want), msg...)
	for i, w := range want {
		if g := float64(got[i]); !near(w, g, float64(T(w)), (rel*max(math.Abs(w), normal[T]())+abs)*Eps[T]()) {
			require.Failf(t, "values differ", "%v: element %d of %d: want %v, got %v", msg, i, len(want), w, g)
		}
	}
}

// Close64 is Close for sums that are carried in float64 and rounded once: rel is 1, and abs is 64 float64 Eps of size, the
// sum of the absolute values of the terms.
func Close64[T kernel.Float](t *testing.T, want []float64, got []T, size float64, msg ...any) {
	t.Helper()
	Close(t, want, got, 1, 64*size*Eps[float64]()/Eps[T](), msg...)
}

func near(want, got, rounded, tolerance float64) bool {
	if math.IsNaN(want) {
		return math.IsNaN(got)
	}
	return got == rounded || math.Abs(got-want) <= tolerance && !math.IsInf(want, 0)
}

// SameBits fails unless both are the same, bit for bit, but for the payload of NaN.
func SameBits[T kernel.Float](t *testing.T, want, got []T, msg ...any) {
	t.Helper()
	require.Len(t, got, len(want), msg...)
	for i, w := range want {
		a, b := float64(w), float64(got[i])
		if math.Float64bits(a) != math.Float64bits(b) && !(a != a && b != b) {
			require.Failf(t, "bits differ", "%v: element %d of %d: want %v, got %v", msg, i, len(want), w, got[i])
		}
	}
}

// AnyOrder runs the chunks of one job forwards, backwards, shuffled and all at once, and fails unless the results have the
// same bits. start makes a fresh job: what runs a chunk, and what ends it and gives the result. It returns that result.
func AnyOrder[T kernel.Float](t *testing.T, chunks int, start func() (run func(c int), end func() []T)) []T {
	t.Helper()
	var first []T
	for k := range 4 {
		run, end := start()
		switch k {
		case 0:
			for c := range chunks {
				run(c)
			}
			first = end()
			continue
		case 1:
			for c := chunks - 1; c >= 0; c-- {
				run(c)
			}
		case 2:
			for _, c := range rand.New(rand.NewPCG(1, 4)).Perm(chunks) {
				run(c)
			}
		case 3:
			var all sync.WaitGroup
			for c := range chunks {
				all.Go(func() { run(c) })
			}
			all.Wait()
		}
		SameBits(t, first, end(), "order", k)
	}
	return first
}
