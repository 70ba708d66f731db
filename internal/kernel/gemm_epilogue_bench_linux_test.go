package kernel_test

import (
	"runtime"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// BenchmarkEpilogue times a product with an epilogue against a product and a pass, turn by turn in time of the processor, on
// shapes of a feed-forward layer: 1,024 tokens of 384 channels, to four times as many and back. Nanoseconds are for an element
// of the result, best of the turns.
//
//	go test ./internal/kernel -run xxx -bench Epilogue
func BenchmarkEpilogue(b *testing.B) {
	for _, c := range []struct {
		name    string
		m, n, k int
		e       kernel.Epilogue
		pass    func(c, with []float32)
	}{
		{"gelu_tanh", 1024, 1536, 384, kernel.EpilogueGELUTanh, func(c, _ []float32) { kernel.GELUTanh(c, c) }},
		{"relu", 1024, 1536, 384, kernel.EpilogueReLU, func(c, _ []float32) { kernel.ReLU(c, c, nil) }},
		{"add", 1024, 384, 1536, kernel.EpilogueAdd, func(c, with []float32) {
			x, y := kernel.Strided[float32]{Data: c, Shape: []int{len(c)}}, kernel.Strided[float32]{Data: with, Shape: []int{len(c)}}
			kernel.Add(x, x, y, 0, len(c))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			g := randomGEMM[float32](c.m, c.n, c.k, false, true)
			g.With, g.LDW = make([]float32, c.m*c.n), c.n
			room := newRoom(g, 1)
			var best [2]float64
			for b.Loop() {
				for i := range best {
					start := threadTime()
					if g.Epilogue = kernel.EpilogueNone; i == 1 {
						g.Epilogue = c.e
					}
					runGEMM(nil, 1, g, room)
					if i == 0 {
						c.pass(g.C, g.With)
					}
					if d := float64(threadTime()-start) / float64(c.m*c.n); best[i] == 0 || d < best[i] {
						best[i] = d
					}
				}
			}
			b.ReportMetric(best[0], "ns-two")
			b.ReportMetric(best[1], "ns-one")
		})
	}
}
