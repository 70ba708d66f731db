package kerneltest

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Convs are geometries around everything that a convolution may be cut at.
func Convs() []kernel.Conv {
	one, none := [2]int{1, 1}, [2]int{}
	conv := func(n, c, o, groups int, in, kern, stride, pad, dilation [2]int) kernel.Conv {
		p := kernel.Conv{N: n, C: c, O: o, Groups: groups, In: in, Kernel: kern, Stride: stride, Pad: pad, Dilation: dilation}
		for d := range in {
			p.Out[d] = (in[d]+2*pad[d]-dilation[d]*(kern[d]-1)-1)/stride[d] + 1
		}
		return p
	}
	square := func(n int) [2]int { return [2]int{n, n} }
	return []kernel.Conv{
		conv(1, 1, 1, 1, one, one, one, none, one),
		conv(2, 3, 4, 1, [2]int{5, 4}, square(3), one, none, one),
		conv(2, 3, 4, 1, [2]int{5, 7}, [2]int{3, 2}, [2]int{2, 1}, [2]int{1, 2}, one),
		conv(3, 2, 5, 1, [2]int{9, 8}, [2]int{2, 3}, [2]int{3, 2}, [2]int{4, 0}, [2]int{2, 3}),
		conv(2, 6, 4, 2, [2]int{6, 5}, square(3), one, one, one),
		conv(1, 4, 3, 1, square(4), square(4), one, none, one),       // one output pixel
		conv(9, 4, 3, 1, square(4), square(4), one, none, one),       // and several images
		conv(5, 70, 9, 1, square(3), square(3), one, one, one),       // a deep kernel on small images
		conv(70, 3, 2, 1, [2]int{2, 3}, [2]int{1, 2}, one, one, one), // more images than a tile has
		conv(2, 3, 5, 1, square(8), square(4), square(4), none, one), // patches
		conv(1, 2, 3, 1, square(12), square(12), square(5), square(6), one),
		conv(2, 5, 7, 1, [2]int{4, 3}, one, one, none, one), // plain
		conv(3, 130, 140, 1, [2]int{2, 3}, one, one, none, one),
		conv(1, 20, 133, 1, [2]int{13, 11}, one, one, none, one),
		conv(2, 4, 6, 2, [2]int{15, 10}, one, one, none, one),
		conv(2, 4, 6, 2, [2]int{5, 10}, one, square(2), none, one), // one pixel, but not plain
		conv(2, 4, 6, 2, [2]int{5, 10}, one, one, one, one),
		conv(1, 9, 40, 1, [2]int{31, 29}, square(3), one, one, one), // few images: cut finer
		conv(2, 17, 140, 1, [2]int{9, 8}, square(3), one, one, one),
		conv(20, 1, 16, 1, [2]int{20, 16}, square(3), one, one, one), // partial sums for dw
		conv(0, 3, 4, 1, square(4), square(2), one, none, one),
		conv(2, 0, 4, 1, square(4), square(2), one, none, one),
		conv(2, 3, 0, 1, square(4), square(2), one, none, one),
		conv(2, 2, 2, 1, [2]int{0, 3}, square(1), one, one, one), // nothing but padding
		// depthwise
		conv(2, 4, 4, 4, [2]int{7, 6}, square(3), one, one, one),
		conv(2, 3, 6, 3, [2]int{7, 6}, [2]int{2, 5}, [2]int{2, 3}, [2]int{1, 4}, [2]int{2, 1}),
		conv(1, 2, 2, 2, [2]int{9, 40}, square(7), one, square(3), one),
		conv(2, 5, 5, 5, [2]int{6, 9}, square(3), square(2), none, square(2)),
		conv(3, 300, 300, 300, [2]int{5, 5}, square(3), one, one, one),
		conv(0, 2, 2, 2, square(3), square(3), one, one, one),
		conv(2, 2, 2, 2, [2]int{3, 1}, [2]int{1, 4}, one, [2]int{2, 3}, one), // more padding than image
	}
}

// ConvRoutines is one implementation: what package kernel's functions of these names do.
type ConvRoutines[T kernel.Float] struct {
	Forward func(p *kernel.Conv, y, x, w, b []T, scratch []byte, chunk int)
	Input   func(p *kernel.Conv, dx []T, add bool, g, w []T, scratch []byte, chunk int)
	Weight  func(p *kernel.Conv, dw []T, add bool, g, x, shared []T, scratch []byte, chunk int)
	Finish  func(p *kernel.Conv, dw []T, add bool, shared []T, chunk int)
}

// Conv tests forward and both gradients: against naive sums in float64, in any order of chunks, in scratch that is just
// large enough and full of NaN.
func Conv[T kernel.Float](t *testing.T, r ConvRoutines[T]) {
	for _, p := range Convs() {
		c := newConvCase[T](p, false)
		c.forward(t, r)
		c.input(t, r)
		c.weight(t, r)
	}
}

// ConvSpecial tests that no product is left out: NaN and Inf come out where the formula has them.
func ConvSpecial[T kernel.Float](t *testing.T, r ConvRoutines[T]) {
	for _, p := range Convs() {
		if p.N*p.O*p.Out[0]*p.Out[1] > 1<<13 {
			continue
		}
		c := newConvCase[T](p, true)
		c.forward(t, r)
		c.input(t, r)
		c.weight(t, r)
	}
}

type convCase[T kernel.Float] struct {
	p          kernel.Conv
	x, w, b, g []T
}

func newConvCase[T kernel.Float](p kernel.Conv, special bool) *convCase[T] {
	k := p.C / p.Groups * p.Kernel[0] * p.Kernel[1]
	c := &convCase[T]{
		p: p,
		x: Rand[T](p.N*p.C*p.In[0]*p.In[1], 1), w: Rand[T](p.O*k, 2), b: Rand[T](p.O, 3),
		g: Rand[T](p.N*p.O*p.Out[0]*p.Out[1], 4),
	}
	if special { // few of them, or all is NaN
		for i, x := range [][]T{c.x, c.w, c.g} {
			if len(x) > 0 {
				x[len(x)/3] = T(math.Inf(i%2*2 - 1))
				x[len(x)/2] = T(math.NaN())
				x[0] = 0
			}
		}
	}
	return c
}

func elemSize[T kernel.Float]() int { return int(unsafe.Sizeof(T(0))) }

// each calls f for every product: output o of image n at pixel at, tap number tap of channel c of the weight, and the
// element of x, or -1 in the padding.
func (c *convCase[T]) each(f func(out, weight, x int)) {
	p := &c.p
	for n := range p.N {
		for o := range p.O {
			for at := range p.Out[0] * p.Out[1] {
				for l := range p.C / p.Groups {
					for tap := range p.Kernel[0] * p.Kernel[1] {
						ih := at/p.Out[1]*p.Stride[0] - p.Pad[0] + tap/p.Kernel[1]*p.Dilation[0]
						iw := at%p.Out[1]*p.Stride[1] - p.Pad[1] + tap%p.Kernel[1]*p.Dilation[1]
						x := -1
						if ih >= 0 && ih < p.In[0] && iw >= 0 && iw < p.In[1] {
							channel := o/(p.O/p.Groups)*(p.C/p.Groups) + l
							x = ((n*p.C+channel)*p.In[0]+ih)*p.In[1] + iw
						}
						f((n*p.O+o)*p.Out[0]*p.Out[1]+at, (o*(p.C/p.Groups)+l)*p.Kernel[0]*p.Kernel[1]+tap, x)
					}
				}
			}
		}
	}
}

func (c *convCase[T]) at(x int) float64 {
	if x < 0 {
		return 0
	}
	return float64(c.x[x])
}

// close compares with sums of so many terms.
func (c *convCase[T]) close(t *testing.T, want []float64, got []T, terms int, what ...any) {
	t.Helper()
	Close(t, want, got, 4, 8*math.Sqrt(float64(terms))*(1+math.Log2(float64(terms+1))), append(what, c.p)...)
}

func (c *convCase[T]) forward(t *testing.T, r ConvRoutines[T]) {
	p := &c.p
	work := p.ForwardWork(elemSize[T]())
	for _, b := range [][]T{nil, c.b} {
		want := make([]float64, len(c.g))
		c.each(func(out, weight, x int) { want[out] += c.at(x) * float64(c.w[weight]) })
		for i := range want {
			if b != nil {
				want[i] += float64(b[i/(p.Out[0]*p.Out[1])%p.O])
			}
		}
		got := AnyOrder(t, work.Chunks, func() (func(int), func() []T) {
			y := dirty[T](len(c.g), false)
			return func(i int) {
				c.inScratch(t, work, func(s []byte) { r.Forward(p, y, c.x, c.w, b, s, i) })
			}, func() []T { return y }
		})
		c.close(t, want, got, p.C/p.Groups*p.Kernel[0]*p.Kernel[1]+1, "y", b != nil)
	}
}

func (c *convCase[T]) input(t *testing.T, r ConvRoutines[T]) {
	p := &c.p
	work := p.InputWork(elemSize[T]())
	want := make([]float64, len(c.x))
	c.each(func(out, weight, x int) {
		if x >= 0 {
			want[x] += float64(c.g[out]) * float64(c.w[weight])
		}
	})
	for _, add := range []bool{false, true} {
		got := AnyOrder(t, work.Chunks, func() (func(int), func() []T) {
			dx := dirty[T](len(c.x), add)
			return func(i int) {
				c.inScratch(t, work, func(s []byte) { r.Input(p, dx, add, c.g, c.w, s, i) })
			}, func() []T { return dx }
		})
		c.close(t, plus(want, dirty[T](len(c.x), add), add), got, p.O/p.Groups*p.Kernel[0]*p.Kernel[1]+1, "dx", add)
	}
}

func (c *convCase[T]) weight(t *testing.T, r ConvRoutines[T]) {
	p := &c.p
	work := p.WeightWork(elemSize[T]())
	want := make([]float64, len(c.w))
	c.each(func(out, weight, x int) { want[weight] += float64(c.g[out]) * c.at(x) })
	for _, add := range []bool{false, true} {
		got := AnyOrder(t, work.Chunks, func() (func(int), func() []T) {
			dw, shared := dirty[T](len(c.w), add), filled(int(work.Shared)/elemSize[T](), T(math.NaN()))
			return func(i int) {
					c.inScratch(t, work, func(s []byte) { r.Weight(p, dw, add, c.g, c.x, shared, s, i) })
				}, func() []T {
					for i := range p.WeightFinishChunks() {
						r.Finish(p, dw, add, shared, i)
					}
					return dw
				}
		})
		c.close(t, plus(want, dirty[T](len(c.w), add), add), got, p.N*p.Out[0]*p.Out[1]+1, "dw", add)
	}
}

// inScratch runs f in scratch of the size that was asked for.
func (c *convCase[T]) inScratch(t *testing.T, work kernel.ConvWork, f func([]byte)) {
	s, whole := newScratch(work.Scratch)
	f(s)
	for _, b := range whole[len(s):] {
		require.True(t, b == 0xff, "wrote past the scratch: %v", c.p)
	}
}

// ConvBounds tests that figures stay modest: scratch of a lane, partial sums and chunks, for shapes of real networks.
func ConvBounds(t *testing.T) {
	for _, n := range []int{1, 8, 256} {
		for _, c := range [][2]int{{1, 16}, {3, 64}, {64, 64}, {64, 256}, {256, 64}, {512, 512}, {2048, 512}} {
			for _, size := range []int{1, 4, 7, 14, 28, 56, 224} {
				for _, k := range []int{1, 3, 7, 16} {
					p := kernel.Conv{
						N: n, C: c[0], O: c[1], Groups: 1, In: [2]int{size, size}, Kernel: [2]int{k, k}, Out: [2]int{size, size},
						Stride: [2]int{1, 1}, Pad: [2]int{k / 2, k / 2}, Dilation: [2]int{1, 1},
					}
					for _, w := range []kernel.ConvWork{p.ForwardWork(4), p.InputWork(4), p.WeightWork(4)} {
						require.LessOrEqual(t, w.Scratch, int64(264<<10), "%v", p)
						require.LessOrEqual(t, w.Shared, int64(256<<10), "%v", p)
						require.Positive(t, w.Chunks)
					}
				}
			}
		}
	}
}
