package kernel_test

import (
	"fmt"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// A bias is added to each row by repeating it (stride 0), and its gradient is the sum over what was repeated. Both are cut
// into chunks by shape alone; an op hands the chunks to its workers.
func Example() {
	shape := []int{3, 2}
	x := []float32{1, 2, 3, 4, 5, 6}
	bias := []float32{10, 20}
	y := make([]float32, 6)
	for c := range kernel.Chunks(len(y)) {
		lo, hi := kernel.Range(len(y), c)
		repeated := kernel.Strided[float32]{Data: bias, Shape: shape, Strides: []int{0, 1}}
		kernel.Add(kernel.Contiguous(y, shape), kernel.Contiguous(x, shape), repeated, lo, hi)
	}
	fmt.Println(y)

	p := kernel.NewSumTo(shape, []int{2})
	shared := make([]float64, p.SharedBytes()/8)
	gradient := kernel.Contiguous(make([]float32, 2), []int{2})
	for c := range p.Chunks() {
		kernel.SumPart(&p, gradient, false, y, shared, c)
	}
	kernel.SumFinish(&p, gradient, false, shared)
	fmt.Println(gradient.Data)
	// Output:
	// [11 22 13 24 15 26]
	// [39 72]
}
