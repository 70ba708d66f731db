package kerneltest

import (
	"math"
	"testing"
	"unsafe"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// RoPE tests the turn and the turn back in both pairings, on all layouts, in place as well.
func RoPE[T kernel.Float](t *testing.T, rotate func(p *kernel.RoPE, dst kernel.Rank4[T], add bool, x kernel.Rank4[T], scratch []byte, c int)) {
	elem := int(unsafe.Sizeof(T(0)))
	for n, sizes := range [][4]int{{1, 1, 1, 2}, {2, 3, 2, 6}, {0, 3, 2, 4}, {2, 70, 3, 64}, {3, 300, 1, 40}, {1, 5, 2, 0}} {
		for _, interleaved := range []bool{false, true} {
			for _, inverse := range []bool{false, true} {
				p := &kernel.RoPE{
					Batch: sizes[0], Steps: sizes[1], Heads: sizes[2], Dim: sizes[3],
					Offset: 1000 * n, Base: 10000, Interleaved: interleaved, Inverse: inverse,
				}
				x := Rand[T](kernel.Elems(sizes[:]), 1)
				want := turned(p, sizes, widened(x))
				slack := 4 + 4*float64(p.Offset+p.Steps)*Eps[float64]()/Eps[T]() // an angle is as exact as its size allows
				for k, lay := range attentionLayouts {
					add := (k+n)%2 == 0
					from := attentionLayouts[(k+2)%len(attentionLayouts)]
					got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
						src, dst := rank4[T](widened(x), sizes, from), rank4[T](widened(dirty[T](len(x), add)), sizes, lay)
						return func(c int) { rotate(p, dst, add, src, fresh(p.Scratch(elem)), c) }, func() []T { return gather(dst, sizes) }
					})
					Close(t, plus(want, dirty[T](len(x), add), add), got, 2, slack, *p, k)
				}
				over := rank4[T](widened(x), sizes, attentionLayouts[1])
				for c := range p.Chunks() {
					rotate(p, over, false, over, fresh(p.Scratch(elem)), c)
				}
				Close(t, want, gather(over, sizes), 2, slack, "in place", *p)
			}
		}
	}
}

// turned is the formula.
func turned(p *kernel.RoPE, sizes [4]int, x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		d := i % p.Dim
		t := i / p.Dim / p.Heads % p.Steps
		pair, first, other := d%(p.Dim/2), d < p.Dim/2, p.Dim/2
		if p.Interleaved {
			pair, first, other = d/2, d%2 == 0, 1
		}
		angle := float64(p.Offset+t) / math.Pow(p.Base, float64(2*pair)/float64(p.Dim))
		if p.Inverse {
			angle = -angle
		}
		if first {
			y[i] = x[i]*math.Cos(angle) - x[i+other]*math.Sin(angle)
		} else {
			y[i] = x[i]*math.Cos(angle) + x[i-other]*math.Sin(angle)
		}
	}
	return y
}
