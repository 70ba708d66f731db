package kernel_test

import (
	"math/rand/v2"
	"testing"
)

// Row kernels read nothing outside of their operands, not even where assembly could get away with it: operands end, and
// then begin, where memory does.
func TestRowsStayInside(t *testing.T) {
	const most = 10
	eachFamily(t, func(t *testing.T) {
		fences := make([][]float32, most)
		for i := range fences {
			fences[i] = fenced(t, 1<<13)
		}
		for _, k := range rowKernels() {
			for n := range 71 {
				for _, atEnd := range []bool{true, false} {
					used := 0
					o := &operands{r: rand.New(rand.NewPCG(1, 2)), alloc: func(n int) []float32 {
						f := fences[used]
						used++
						if atEnd {
							return f[len(f)-n:]
						}
						return f[:n:n]
					}}
					k.start(o, n)()
				}
			}
		}
	})
}
