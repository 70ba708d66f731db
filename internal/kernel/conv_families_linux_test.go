package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// All families agree on random convolutions, and nothing outside of the operands is read or written: they end, and then
// begin, where memory does.
func TestConvFamilies(t *testing.T) {
	f := newFencedConv(t)
	for seed := range uint64(400) {
		f.compare(t, seed)
	}
}

func FuzzConvFamilies(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { newFencedConv(t).compare(t, seed) })
}

// fencedConv is memory for x, w, b, y, the gradient of y and those of x and w.
type fencedConv [7][]float32

func newFencedConv(t *testing.T) *fencedConv {
	f := new(fencedConv)
	for i := range f {
		f[i] = fenced(t, 1<<18)
	}
	return f
}

// anyConv is a random geometry.
func anyConv(r *rand.Rand) kernel.Conv {
	for {
		p := kernel.Conv{N: 1 + r.IntN(3), Groups: 1 + r.IntN(2)}
		p.C, p.O = p.Groups*(1+r.IntN(9)), p.Groups*(1+r.IntN(40))
		fits := true
		for d := range p.In {
			p.In[d], p.Kernel[d] = 1+r.IntN(26), 1+r.IntN(4)
			p.Stride[d], p.Dilation[d] = max(1, r.IntN(4)), max(1, r.IntN(4)-1)
			p.Pad[d] = max(0, r.IntN(5)-2)
			room := p.In[d] + 2*p.Pad[d] - p.Dilation[d]*(p.Kernel[d]-1) - 1
			p.Out[d] = room/p.Stride[d] + 1
			fits = fits && room >= 0
		}
		if fits {
			return p
		}
	}
}

// Of few channels and long rows: with and without a border, strides, dilations and groups, rows that tiles cut and such
// that are not a multiple of what is computed at once, several images in a tile.
func TestConvBands(t *testing.T) {
	f := newFencedConv(t)
	pair := func(h, w int) [2]int { return [2]int{h, w} }
	for i, p := range []kernel.Conv{
		{N: 2, C: 1, O: 32, Groups: 1, In: pair(12, 28), Kernel: pair(3, 3), Stride: pair(1, 1), Dilation: pair(1, 1)},
		{N: 3, C: 3, O: 13, Groups: 1, In: pair(9, 20), Kernel: pair(3, 3), Stride: pair(1, 1), Pad: pair(1, 1), Dilation: pair(1, 1)},
		{N: 1, C: 3, O: 19, Groups: 1, In: pair(21, 40), Kernel: pair(7, 7), Stride: pair(2, 2), Pad: pair(3, 3), Dilation: pair(1, 1)},
		{N: 5, C: 2, O: 3, Groups: 1, In: pair(2, 16), Kernel: pair(1, 1), Stride: pair(1, 1), Pad: pair(0, 1), Dilation: pair(1, 1)},
		{N: 1, C: 8, O: 12, Groups: 2, In: pair(7, 61), Kernel: pair(2, 3), Stride: pair(1, 3), Pad: pair(2, 0), Dilation: pair(2, 2)},
		{N: 1, C: 4, O: 1, Groups: 1, In: pair(4, 150), Kernel: pair(3, 2), Stride: pair(2, 1), Dilation: pair(1, 3)},
		{N: 2, C: 1, O: 7, Groups: 1, In: pair(3, 131), Kernel: pair(1, 4), Stride: pair(1, 1), Pad: pair(1, 2), Dilation: pair(1, 1)},
	} {
		for d := range p.In {
			p.Out[d] = (p.In[d]+2*p.Pad[d]-p.Dilation[d]*(p.Kernel[d]-1)-1)/p.Stride[d] + 1
		}
		require.GreaterOrEqual(t, p.Out[1], 16)
		f.compareOn(t, p, uint64(i))
	}
}

func (f *fencedConv) compare(t *testing.T, seed uint64) {
	f.compareOn(t, anyConv(rand.New(rand.NewPCG(seed, 7))), seed)
}

// compareOn is compare for one geometry.
func (f *fencedConv) compareOn(t *testing.T, p kernel.Conv, seed uint64) {
	depth := p.C / p.Groups * p.Kernel[0] * p.Kernel[1]
	out := p.N * p.O * p.Out[0] * p.Out[1]
	sizes := fencedConv{}
	for i, n := range []int{p.N * p.C * p.In[0] * p.In[1], p.O * depth, p.O, out, out, p.N * p.C * p.In[0] * p.In[1], p.O * depth} {
		sizes[i] = make([]float32, n)
	}
	for _, atEnd := range []bool{true, false} {
		var want *fencedConv
		for _, family := range kernel.Families() {
			kernel.UseFamily(t, family)
			r, op := rand.New(rand.NewPCG(seed, 8)), fencedConv{}
			for i, x := range f {
				n := len(sizes[i])
				if op[i] = x[:n:n]; atEnd {
					op[i] = x[len(x)-n:]
				}
				for k := range op[i] {
					op[i][k] = 2*r.Float32() - 1
				}
			}
			convolve(&p, &op, seed%2 == 0)
			if want == nil {
				want = new(fencedConv)
				for i := range op {
					want[i] = append([]float32(nil), op[i]...)
				}
				continue
			}
			terms := math.Sqrt(float64(depth + out + p.O))
			for i, name := range []string{3: "y", 5: "dx", 6: "dw"} {
				if name != "" {
					nearFloats(t, want[i], op[i], 0x1p-24*(20+8*terms), name, fmt.Sprintf("seed %d: %+v", seed, p))
				}
			}
		}
	}
}

// convolve runs forward and both gradients.
func convolve(p *kernel.Conv, op *fencedConv, add bool) {
	x, w, b, y, g, dx, dw := op[0], op[1], op[2], op[3], op[4], op[5], op[6]
	run := func(work kernel.ConvWork, f func(scratch []byte, shared []float32, i int)) {
		scratch, shared := make([]byte, work.Scratch), make([]float32, work.Shared/4)
		for i := range work.Chunks {
			f(scratch, shared, i)
		}
		if work.Shared > 0 {
			for i := range p.WeightFinishChunks() {
				kernel.ConvWeightFinish(p, dw, add, shared, i)
			}
		}
	}
	run(p.ForwardWork(4), func(s []byte, _ []float32, i int) { kernel.ConvForward(p, y, x, w, b, s, i) })
	run(p.InputWork(4), func(s []byte, _ []float32, i int) { kernel.ConvInput(p, dx, add, g, w, s, i) })
	run(p.WeightWork(4), func(s []byte, shared []float32, i int) { kernel.ConvWeight(p, dw, add, g, x, shared, s, i) })
}
