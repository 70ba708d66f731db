package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

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

func (f *fencedConv) compare(t *testing.T, seed uint64) {
	p := anyConv(rand.New(rand.NewPCG(seed, 7)))
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
