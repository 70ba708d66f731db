package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// All families agree on random pools of 2 x 2, among them elements that are NaN, and nothing outside of the operands is read
// or written: they end, and then begin, where memory does.
func TestPoolFamilies(t *testing.T) {
	var room [4][]float32
	for i := range room {
		room[i] = fenced(t, 1<<16)
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 9))
		p := kernel.Pool{Planes: 1 + r.IntN(4), In: [2]int{2 + r.IntN(9), 2 + r.IntN(60)}, Kernel: [2]int{2, 2}, Stride: [2]int{2, 2}}
		p.Out = [2]int{p.In[0] / 2, p.In[1] / 2}
		for _, atEnd := range []bool{true, false} {
			var want [][]float32
			var wantCodes []uint8
			for _, family := range kernel.Families() {
				kernel.UseFamily(t, family)
				got, codes := poolAll(&p, &room, atEnd, seed)
				if want == nil {
					want, wantCodes = got, codes
					continue
				}
				what := fmt.Sprintf("seed %d: %+v", seed, p)
				require.Equal(t, wantCodes, codes, what)
				for i := range want {
					sameOrNear(t, want[i], got[i], what)
				}
			}
		}
	}
}

func sameOrNear(t *testing.T, want, got []float32, what string) {
	t.Helper()
	for i, w := range want {
		if math.IsNaN(float64(w)) {
			require.True(t, got[i] != got[i], what)
			continue
		}
		require.InDelta(t, w, got[i], 1e-6, what)
	}
}

// poolAll runs both pools in both directions, on the same operands in every family.
func poolAll(p *kernel.Pool, room *[4][]float32, atEnd bool, seed uint64) (results [][]float32, codes []uint8) {
	r := rand.New(rand.NewPCG(seed, 10))
	out := p.Planes * p.Out[0] * p.Out[1]
	var op [4][]float32 // x, y, g, dx
	for i, n := range []int{p.Planes * p.In[0] * p.In[1], out, out, p.Planes * p.In[0] * p.In[1]} {
		if op[i] = room[i][:n:n]; atEnd {
			op[i] = room[i][len(room[i])-n:]
		}
		for k := range op[i] {
			if op[i][k] = float32(r.IntN(9)) - 4; i == 0 && r.IntN(40) == 0 {
				op[i][k] = float32(math.NaN())
			}
		}
	}
	x, y, g, dx := op[0], op[1], op[2], op[3]
	keep := func(v []float32) { results = append(results, append([]float32(nil), v...)) }
	codes = make([]uint8, p.CodeBytes(out))
	a := kernel.AvgPool{Pool: *p}
	chunked(out, func(lo, hi int) { kernel.MaxPool(p, y, x, codes, lo, hi) })
	keep(y)
	for _, add := range []bool{true, false} {
		kernel.MaxPoolBackward(p, dx, add, g, codes, 0, p.Planes)
		keep(dx)
		kernel.AvgPoolBackward(&a, dx, add, g, 0, p.Planes)
		keep(dx)
	}
	kernel.AvgPoolForward(&a, y, x, 0, p.Planes)
	keep(y)
	return results, codes
}
