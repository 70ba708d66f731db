package kerneltest

import (
	"sync"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// gemmStages computes large products in stages, and demands the bits of chunks, whatever the order within a stage, on
// however many goroutines, and with one operand packed beforehand.
func gemmStages[T kernel.Float](t *testing.T) {
	for _, s := range [][3]int{{131, 129, 300}, {400, 1100, 10}, {97, 1033, 45}, {1161, 96, 40}, {385, 130, 520}, {500, 1200, 256}, {100, 97, 2950}, {384, 300, 600}} {
		stages := kernel.GEMMStaging(s[0], s[1], s[2])
		require.Positive(t, stages.Stages())
		gemmCase{m: s[0], n: s[1], k: s[2]}.storages(func(c gemmCase) {
			c.pad = s[0] % 4
			want := newProduct[T](c)
			want.check(t)
			for _, packed := range []bool{false, true} {
				for _, lanes := range []int{1, 3} {
					staged := newProduct[T](c)
					staged.inStages(t, packed, lanes)
					requireSameBits(t, want, staged)
				}
			}
		})
	}
}

// inStages computes all stages, the chunks of each in descending order, with memory that is just large enough.
func (p *product[T]) inStages(t *testing.T, packed bool, lanes int) {
	par := func(n int, f func(lane, chunk int)) {
		var all sync.WaitGroup
		for lane := range lanes {
			all.Go(func() {
				for i := n - 1 - lane; i >= 0; i -= lanes {
					f(lane, i)
				}
			})
		}
		all.Wait()
	}
	size := int(unsafe.Sizeof(T(0)))
	var room, rest []byte
	if packed {
		room, rest = newScratch(kernel.GEMMPackedBytes(p.m, p.k, size))
		p.g.Packed = kernel.View[T](room)
		par(kernel.GEMMPackedChunks(p.m, p.k), func(_, i int) { p.g.PackRows(i) })
	}
	s := p.g.Staging()
	shared, whole := newScratch(s.Shared(size))
	lane := make([][2][]byte, lanes)
	for i := range lane {
		lane[i][0], lane[i][1] = newScratch(s.Scratch(size))
	}
	for stage := range s.Stages() {
		require.LessOrEqual(t, s.Chunks(stage), s.MostChunks())
		par(s.Chunks(stage), func(l, i int) { p.g.Stage(shared, lane[l][0], stage, i) })
	}
	for _, l := range lane {
		p.requireUntouched(t, l[1][len(l[0]):])
	}
	p.requireUntouched(t, whole[len(shared):])
	p.requireUntouched(t, rest[len(room):])
}
