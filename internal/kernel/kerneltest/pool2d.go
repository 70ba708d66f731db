package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Pools are windows that overlap, leave gaps, lie in the padding, and need codes of each width.
func Pools() (list []kernel.Pool) {
	for _, c := range [][9]int{ // planes, height, width, kernel, stride, padding
		{3, 6, 6, 2, 2, 2, 2, 0, 0}, {3, 7, 5, 2, 2, 2, 2, 0, 0}, {2, 6, 9, 2, 2, 1, 3, 0, 0}, {5, 7, 7, 2, 2, 2, 2, 1, 1},
		{4, 7, 7, 3, 3, 2, 2, 1, 1}, {2, 9, 8, 3, 2, 1, 1, 1, 0}, {2, 5, 4, 1, 1, 1, 1, 0, 0}, {1, 1, 9, 1, 2, 1, 1, 0, 1},
		{2, 20, 21, 5, 4, 2, 3, 2, 2}, {1, 20, 21, 17, 16, 1, 2, 8, 0}, {3, 4, 4, 4, 4, 4, 4, 0, 0}, {2, 5, 6, 2, 1, 3, 4, 0, 0},
		{0, 4, 4, 2, 2, 2, 2, 0, 0}, {7, 3, 600, 2, 2, 1, 1, 0, 0}, {90, 30, 31, 3, 3, 1, 2, 1, 1}, {1, 300, 290, 2, 2, 2, 2, 0, 0},
		{3, 4, 16, 2, 2, 2, 2, 0, 0}, {3, 5, 21, 2, 2, 2, 2, 0, 0}, {9, 24, 24, 2, 2, 2, 2, 0, 0}, {2, 3, 15, 2, 2, 2, 2, 0, 0}, {1, 2, 1100, 2, 2, 2, 2, 0, 0},
	} {
		p := kernel.Pool{Planes: c[0], In: [2]int{c[1], c[2]}, Kernel: [2]int{c[3], c[4]}, Stride: [2]int{c[5], c[6]}, Pad: [2]int{c[7], c[8]}}
		for d := range p.In {
			p.Out[d] = (p.In[d]+2*p.Pad[d]-p.Kernel[d])/p.Stride[d] + 1
		}
		list = append(list, p)
	}
	return list
}

// inWindow calls f for each element of the window of output o that is within the border.
func inWindow(p *kernel.Pool, o int, f func(i int)) {
	n, oh, ow := o/(p.Out[0]*p.Out[1]), o/p.Out[1]%p.Out[0], o%p.Out[1]
	for r := range p.Kernel[0] {
		for c := range p.Kernel[1] {
			ih, iw := oh*p.Stride[0]-p.Pad[0]+r, ow*p.Stride[1]-p.Pad[1]+c
			if ih >= 0 && ih < p.In[0] && iw >= 0 && iw < p.In[1] {
				f((n*p.In[0]+ih)*p.In[1] + iw)
			}
		}
	}
}

func poolSizes(p *kernel.Pool) (in, out int) {
	return p.Planes * p.In[0] * p.In[1], p.Planes * p.Out[0] * p.Out[1]
}

// MaxPool tests values, with and without codes, and the gradient that the codes lead to. Elements repeat, so that there are
// ties, and some are NaN or infinite.
func MaxPool[T kernel.Float](
	t *testing.T,
	forward func(p *kernel.Pool, y, x []T, codes []uint8, lo, hi int),
	backward func(p *kernel.Pool, dx []T, add bool, g []T, codes []uint8, lo, hi int),
) {
	for _, p := range Pools() {
		for _, special := range []bool{false, true} {
			in, out := poolSizes(&p)
			x, g := Rand[T](in, 1), Rand[T](out, 2)
			for i, v := range x {
				x[i] = T(math.Round(float64(v) * 3))
			}
			if special {
				Specials(x, 3)
			}
			want, winner := make([]T, out), make([]int, out)
			for o := range want {
				winner[o] = -1
				inWindow(&p, o, func(i int) {
					if winner[o] < 0 || x[i] > want[o] || x[i] != x[i] {
						want[o], winner[o] = x[i], i
					}
				})
			}
			codes := filled(p.CodeBytes(out), uint8(0xa5))
			SameBits(t, want, AnyOrder(t, kernel.Chunks(out), func() (func(int), func() []T) {
				y := dirty[T](out, false)
				return func(c int) {
					lo, hi := kernel.Range(out, c)
					forward(&p, y, x, codes, lo, hi)
				}, func() []T { return y }
			}), "y", fmt.Sprint(p))
			y := dirty[T](out, false)
			forward(&p, y, x, nil, 0, out)
			SameBits(t, want, y, "without codes")

			for _, add := range []bool{false, true} {
				want := make([]float64, in)
				for o, i := range winner {
					want[i] += float64(g[o])
				}
				got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
					dx := dirty[T](in, add)
					return func(c int) {
						lo, hi := p.PlaneRange(c)
						backward(&p, dx, add, g, codes, lo, hi)
					}, func() []T { return dx }
				})
				Close(t, plus(want, dirty[T](in, add), add), got, 4, 40, "dx", fmt.Sprint(p), add)
			}
		}
	}
}

// MaxPoolCodes tests how many bytes codes take.
func MaxPoolCodes(t *testing.T) {
	for _, c := range [][4]int{{1, 1, 9, 2}, {1, 2, 9, 2}, {2, 2, 9, 3}, {3, 3, 9, 5}, {4, 4, 9, 5}, {4, 5, 9, 9}, {16, 16, 9, 9}, {16, 17, 9, 18}, {256, 256, 1, 2}} {
		p := kernel.Pool{Kernel: [2]int{c[0], c[1]}}
		require.Equal(t, c[3], p.CodeBytes(c[2]), "%v", c)
	}
}

// AvgPool tests means over windows and over bins, and their gradients.
func AvgPool[T kernel.Float](
	t *testing.T,
	forward func(p *kernel.AvgPool, y, x []T, lo, hi int),
	backward func(p *kernel.AvgPool, dx []T, add bool, g []T, lo, hi int),
) {
	var all []kernel.AvgPool
	for _, p := range Pools() {
		all = append(all, kernel.AvgPool{Pool: p})
	}
	for _, c := range [][5]int{{2, 6, 4, 1, 1}, {2, 6, 4, 3, 2}, {3, 7, 5, 3, 4}, {2, 3, 2, 5, 7}, {1, 9, 20, 9, 3}, {200, 14, 13, 1, 1}, {0, 3, 3, 2, 2}} {
		p := kernel.Pool{Planes: c[0], In: [2]int{c[1], c[2]}, Out: [2]int{c[3], c[4]}}
		all = append(all, kernel.AvgPool{Pool: p, Adaptive: true})
	}
	for _, p := range all {
		avgPool(t, p, forward, backward)
	}
}

func avgPool[T kernel.Float](
	t *testing.T, p kernel.AvgPool,
	forward func(p *kernel.AvgPool, y, x []T, lo, hi int),
	backward func(p *kernel.AvgPool, dx []T, add bool, g []T, lo, hi int),
) {
	in, out := poolSizes(&p.Pool)
	x, g := Rand[T](in, 1), Rand[T](out, 2)
	want, wantDX := make([]float64, out), make([]float64, in)
	for o := range want {
		visit, size := inWindow, float64(p.Kernel[0]*p.Kernel[1])
		if p.Adaptive {
			visit, size = inBin, 0
			inBin(&p.Pool, o, func(int) { size++ })
		}
		visit(&p.Pool, o, func(i int) {
			want[o] += float64(x[i]) / size
			wantDX[i] += float64(g[o]) / size
		})
	}
	got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
		y := dirty[T](out, false)
		return func(c int) {
			lo, hi := p.PlaneRange(c)
			forward(&p, y, x, lo, hi)
		}, func() []T { return y }
	})
	Close(t, want, got, 2, 4, "y", fmt.Sprint(p))
	for _, add := range []bool{false, true} {
		got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
			dx := dirty[T](in, add)
			return func(c int) {
				lo, hi := p.PlaneRange(c)
				backward(&p, dx, add, g, lo, hi)
			}, func() []T { return dx }
		})
		Close(t, plus(wantDX, dirty[T](in, add), add), got, 4, 20, "dx", fmt.Sprint(p), add)
	}
}

// inBin is inWindow for adaptive bins.
func inBin(p *kernel.Pool, o int, f func(i int)) {
	n, oh, ow := o/(p.Out[0]*p.Out[1]), o/p.Out[1]%p.Out[0], o%p.Out[1]
	bin := func(d, o int) (lo, hi int) {
		size := float64(p.In[d]) / float64(p.Out[d])
		return int(math.Floor(float64(o)*size + 1e-9)), int(math.Ceil(float64(o+1)*size - 1e-9))
	}
	r0, r1 := bin(0, oh)
	c0, c1 := bin(1, ow)
	for r := r0; r < r1; r++ {
		for c := c0; c < c1; c++ {
			f((n*p.In[0]+r)*p.In[1] + c)
		}
	}
}
