package kernel_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thimble-ml/thimble/internal/kernel"
)

// All families agree on random products, whose matrices begin and end anywhere. Two sums of the same products in the
// same order differ by a rounding or so a step, in either direction.
func TestGEMMFamilies(t *testing.T) {
	for seed := range uint64(400) {
		compareFamilies[float32](t, seed)
		if seed%2 == 0 {
			compareFamilies[float64](t, seed)
		}
	}
}

func FuzzGEMMFamilies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		compareFamilies[float32](t, seed)
		compareFamilies[float64](t, seed)
	})
}

func compareFamilies[T kernel.Float](t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	g, limit := anyGEMM[T](r)
	old := append([]T(nil), g.C...)
	var want []T
	for _, f := range kernel.Families() {
		kernel.UseFamily(t, f)
		copy(g.C, old)
		runGEMM(nil, 1, g, newRoom(g, 1))
		if want == nil {
			want = append(want, g.C...)
			continue
		}
		for i, w := range want {
			if d := math.Abs(float64(g.C[i] - w)); !(d <= limit) { // NaN is far too
				require.Failf(t, "families differ", "seed %d, %s: M%d N%d K%d %t %t: C[%d] is %v, plain Go %v", seed, f, g.M, g.N, g.K, g.TransA, g.TransB, i, g.C[i], w)
			}
		}
	}
}

// anyGEMM is a random product, and how much two families may differ on it.
func anyGEMM[T kernel.Float](r *rand.Rand) (g *kernel.GEMM[T], limit float64) {
	size := func() int { return 1 + r.IntN([]int{8, 20, 70, 300}[r.IntN(4)]) }
	g = &kernel.GEMM[T]{M: size(), N: size(), K: size(), TransA: r.IntN(2) > 0, TransB: r.IntN(2) > 0, Add: r.IntN(2) > 0}
	matrix := func(rows, cols int, trans bool) ([]T, int) {
		if trans {
			rows, cols = cols, rows
		}
		ld := cols + r.IntN(2)*r.IntN(20)
		s := make([]T, r.IntN(16)+(rows-1)*ld+cols)
		for i := range s {
			s[i] = T(r.Float64() - .5)
		}
		return s[len(s)-(rows-1)*ld-cols:], ld
	}
	g.A, g.LDA = matrix(g.M, g.K, g.TransA)
	g.B, g.LDB = matrix(g.K, g.N, g.TransB)
	g.C, g.LDC = matrix(g.M, g.N, false)
	if r.IntN(2) > 0 {
		g.Bias, _ = matrix(1, g.N, false)
	}
	unit := 0x1p-24
	if T(1+0x1p-50) != 1 { // float64
		unit = 0x1p-53
	}
	return g, unit * float64(g.K+4) * (4 + 2*math.Sqrt(float64(g.K)))
}

// A product takes nothing from Go's heap: tile, vector or stages.
func TestGEMMAllocates(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		for _, s := range [][3]int{{2, 4, 4}, {20, 30, 40}, {1, 70, 40}, {70, 1, 40}, {210, 200, 100}} {
			for _, trans := range []bool{false, true} {
				g := randomGEMM[float32](s[0], s[1], s[2], trans, trans)
				room, stages := newRoom(g, 1), kernel.GEMMStaging(g.M, g.N, g.K)
				require.Zero(t, testing.AllocsPerRun(5, func() {
					for s := range stages.Stages() {
						for c := range stages.Chunks(s) {
							g.Stage(room.shared, room.lanes[0], s, c)
						}
					}
					if stages.Stages() == 0 {
						g.Whole(room.lanes[0])
						g.Chunk(room.lanes[0], 0)
					}
				}), "%v", s)
			}
		}
	})
}
