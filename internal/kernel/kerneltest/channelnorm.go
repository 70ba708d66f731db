package kerneltest

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// channelShapes are images, channels, pixels, groups.
func channelShapes() [][4]int {
	return [][4]int{
		{2, 1, 1, 1}, {5, 3, 1, 1}, {1, 4, 6, 2}, {4, 3, 10, 3}, {3, 6, 7, 2}, {70, 9, 1, 3}, {300, 300, 1, 4}, {2, 5, 9001, 5},
		{40, 2, 500, 1}, {900, 1, 33, 1}, {1, 64, 50, 8}, {40000, 2, 1, 2}, {0, 3, 4, 1}, {2, 0, 4, 1},
	}
}

// normCase is x with a mean that is not small, and what the formulas give.
type normCase[T kernel.Float] struct {
	n, c, p, groups int // groups 0: batch norm
	x, g, w, b      []T
	stats           []float64 // mean, rstd
	xhat            []float64
	unbiased        []float64
	scale           float64 // largest rstd, or 1
}

func newNormCase[T kernel.Float](s [4]int, groups int, weight bool) *normCase[T] {
	k := &normCase[T]{n: s[0], c: s[1], p: s[2], groups: groups, scale: 1}
	k.x = Rand[T](k.n*k.c*k.p, 1)
	for i := range k.x {
		k.x[i] += 2
	}
	k.g = Rand[T](len(k.x), 4)
	if weight {
		k.w, k.b = Rand[T](k.c, 2), Rand[T](k.c, 3)
	}
	sets := k.c
	if groups > 0 {
		sets = k.n * groups
	}
	sums, squares, counts := make([]total, sets), make([]total, sets), make([]float64, sets)
	for i, v := range k.x {
		sums[k.set(i)].add(float64(v))
		counts[k.set(i)]++
	}
	mean := func(s int) float64 { return sums[s].value() / counts[s] }
	for i, v := range k.x {
		d := float64(v) - mean(k.set(i))
		squares[k.set(i)].add(d * d)
	}
	for s := range sets {
		if counts[s] == 0 { // no numbers: 0, unless it is a single one
			counts[s] = 2
		}
		rstd := 1 / math.Sqrt(squares[s].value()/counts[s]+layerNormEps)
		k.stats = append(k.stats, mean(s), rstd)
		k.unbiased = append(k.unbiased, squares[s].value()/(counts[s]-1))
		k.scale = max(k.scale, rstd)
	}
	for i, v := range k.x {
		s := k.set(i)
		k.xhat = append(k.xhat, (float64(v)-k.stats[2*s])*k.stats[2*s+1])
	}
	return k
}

func (k *normCase[T]) channel(i int) int { return i / k.p % k.c }

// set is which statistics element i has.
func (k *normCase[T]) set(i int) int {
	if k.groups == 0 {
		return k.channel(i)
	}
	return i/(k.c*k.p)*k.groups + k.channel(i)/(k.c/k.groups)
}

func (k *normCase[T]) weight(i int) float64 {
	if k.w == nil {
		return 1
	}
	return float64(k.w[k.channel(i)])
}

func (k *normCase[T]) y() []float64 {
	y := make([]float64, len(k.x))
	for i, v := range k.xhat {
		y[i] = v * k.weight(i)
		if k.b != nil {
			y[i] += float64(k.b[k.channel(i)])
		}
	}
	return y
}

// sums are those of g and of g xhat by channel.
func (k *normCase[T]) sums() (s []float64) {
	s = make([]float64, 2*k.c)
	for i, g := range k.g {
		s[k.channel(i)] += float64(g)
		s[k.c+k.channel(i)] += float64(g) * k.xhat[i]
	}
	return s
}

// dx is the gradient of x; with given statistics, they are constants.
func (k *normCase[T]) dx(given bool) []float64 {
	dx := make([]float64, len(k.x))
	m1, m2, counts := make([]float64, len(k.stats)/2), make([]float64, len(k.stats)/2), make([]float64, len(k.stats)/2)
	for i, g := range k.g {
		s := k.set(i)
		m1[s] += float64(g) * k.weight(i)
		m2[s] += float64(g) * k.weight(i) * k.xhat[i]
		counts[s]++
	}
	for i, g := range k.g {
		s := k.set(i)
		dx[i] = float64(g) * k.weight(i)
		if !given {
			dx[i] -= m1[s]/counts[s] + k.xhat[i]*m2[s]/counts[s]
		}
		dx[i] *= k.stats[2*s+1]
	}
	return dx
}

func rounded[T kernel.Float](x []float64) []T {
	r := make([]T, len(x))
	for i, v := range x {
		r[i] = T(v)
	}
	return r
}

// eachNorm runs f on every shape, with and without weight and bias.
func eachNorm[T kernel.Float](grouped bool, f func(k *normCase[T])) {
	for _, s := range channelShapes() {
		for _, weight := range []bool{true, false} {
			groups := 0
			if grouped {
				groups = s[3]
			}
			f(newNormCase[T](s, groups, weight))
		}
	}
}

// BatchNorm tests the statistics of a batch and what is made with them.
func BatchNorm[T kernel.Float](
	t *testing.T,
	part func(k *kernel.ChannelNorm, x []T, parts []float64, c int),
	finish func(k *kernel.ChannelNorm, stats, mean, variance []T, parts []float64, eps float64),
	apply func(k *kernel.ChannelNorm, y, x, stats, w, b []T, c int),
) {
	eachNorm(false, func(k *normCase[T]) {
		p := kernel.NewBatchNorm(k.n, k.c, k.p)
		got := AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
			parts := filled(p.Parts(), math.NaN())
			return func(c int) { part(&p, k.x, parts, c) }, func() []T {
				out := dirty[T](4*k.c, false)
				finish(&p, out[:2*k.c], out[2*k.c:3*k.c], out[3*k.c:], parts, layerNormEps)
				return out
			}
		})
		tol := 1 + slack64[T](k.n*k.p)
		Close(t, k.stats, got[:2*k.c], 2, tol, "stats", k.n, k.c, k.p)
		Close(t, k.unbiased, got[3*k.c:], 2, tol, "variance", k.n, k.c, k.p)
		for c := range k.c {
			SameBits(t, got[2*c:2*c+1], got[2*k.c+c:2*k.c+c+1], "mean")
		}
		y := AnyOrder(t, p.RowChunks(), func() (func(int), func() []T) {
			y := dirty[T](len(k.x), false)
			return func(c int) { apply(&p, y, k.x, got[:2*k.c], k.w, k.b, c) }, func() []T { return y }
		})
		Close(t, k.y(), y, 8, 16*k.scale+tol, "y", k.n, k.c, k.p)
	})
}

// BatchNormMoments tests that the variance of numbers far from 0 is as good as any.
func BatchNormMoments[T kernel.Float](
	t *testing.T,
	part func(k *kernel.ChannelNorm, x []T, parts []float64, c int),
	finish func(k *kernel.ChannelNorm, stats, mean, variance []T, parts []float64, eps float64),
) {
	for _, s := range [][3]int{{4, 2, 20000}, {50000, 2, 1}} {
		p := kernel.NewBatchNorm(s[0], s[1], s[2])
		x := make([]T, s[0]*s[1]*s[2])
		for i := range x {
			x[i] = 1 << 20
			if i/s[2]/s[1]+i%s[2]&1 == 1 {
				x[i]++
			}
		}
		ones := 0.0 // of channel 0
		for i, v := range x {
			if i/s[2]%s[1] == 0 {
				ones += float64(v) - 1<<20
			}
		}
		n := float64(s[0] * s[2])
		parts, out := make([]float64, p.Parts()), make([]T, 8)
		for c := range p.Chunks() {
			part(&p, x, parts, c)
		}
		finish(&p, out[:4], out[4:6], out[6:], parts, 0)
		Close(t, []float64{ones / n * (1 - ones/n) * n / (n - 1)}, out[6:7], 4, slack64[T](1<<40))
	}
}

// ChannelSums tests the gradients of weight and bias, for batch norm and group norm; without x, of the bias alone.
func ChannelSums[T kernel.Float](t *testing.T, part func(k *kernel.ChannelNorm, g, x, stats []T, parts []float64, c int)) {
	for _, grouped := range []bool{false, true} {
		eachNorm(grouped, func(k *normCase[T]) {
			p := kernel.NewBatchNorm(k.n, k.c, k.p)
			if grouped {
				p = kernel.NewGroupNorm(k.n, k.c, k.p, k.groups)
			}
			size := 64 * math.Sqrt(float64(k.n*k.p+1)) * k.scale
			for _, add := range []bool{false, true} {
				run := func(x []T) []T {
					return AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
						parts := filled(p.Parts(), math.NaN())
						return func(c int) { part(&p, k.g, x, rounded[T](k.stats), parts, c) }, func() []T {
							dst := dirty[T](2*k.c, add)
							kernel.PutSums(dst, add, kernel.ChannelSumsFinish(&p, parts))
							return dst
						}
					})
				}
				got := run(k.x)
				Close(t, plus(k.sums(), dirty[T](2*k.c, add), add), got, 8, size, "sums", k.n, k.c, k.p, k.groups)
				SameBits(t, got[:k.c], run(nil)[:k.c], "without x")
			}
		})
	}
}

// BatchNormBackward tests the gradient of x, with the batch's statistics and with given ones, and those of given ones.
func BatchNormBackward[T kernel.Float](
	t *testing.T,
	factors func(k *kernel.ChannelNorm, factors, stats, w []T, sums []float64),
	backward func(k *kernel.ChannelNorm, dx []T, add bool, g, x, stats, factors []T, c int),
	given func(k *kernel.ChannelNorm, dmean []T, addM bool, dvar []T, addV bool, stats, w []T, sums []float64),
) {
	eachNorm(false, func(k *normCase[T]) {
		p := kernel.NewBatchNorm(k.n, k.c, k.p)
		stats, sums, f := rounded[T](k.stats), k.sums(), dirty[T](3*k.c, false)
		for _, add := range []bool{false, true} {
			for _, fixed := range []bool{false, true} {
				x := k.x
				if fixed {
					x, sums = nil, nil
				}
				factors(&p, f, stats, k.w, sums)
				sums = k.sums()
				got := AnyOrder(t, p.RowChunks(), func() (func(int), func() []T) {
					dx := dirty[T](len(k.x), add)
					return func(c int) { backward(&p, dx, add, k.g, x, stats, f, c) }, func() []T { return dx }
				})
				Close(t, plus(k.dx(fixed), dirty[T](len(k.x), add), add), got, 8, 32*k.scale*k.scale, "dx", k.n, k.c, k.p, add, fixed)
			}
			want := make([]float64, 2*k.c)
			for c := range k.c {
				a := k.stats[2*c+1]
				if k.w != nil {
					a *= float64(k.w[c])
				}
				want[c], want[k.c+c] = -a*sums[c], -a*k.stats[2*c+1]*sums[k.c+c]/2
			}
			got := dirty[T](2*k.c, add)
			given(&p, got[:k.c], add, got[k.c:], add, stats, k.w, sums)
			Close(t, plus(want, dirty[T](2*k.c, add), add), got, 4, 4*largest(want), "of mean and variance")
			given(&p, nil, false, nil, false, stats, k.w, sums)
		}
	})
}

// GroupNorm tests forward and the gradient of x.
func GroupNorm[T kernel.Float](
	t *testing.T,
	forward func(k *kernel.ChannelNorm, y, stats, x, w, b []T, eps float64, c int),
	backward func(k *kernel.ChannelNorm, dx []T, add bool, g, x, w, stats []T, c int),
) {
	eachNorm(true, func(k *normCase[T]) {
		p := kernel.NewGroupNorm(k.n, k.c, k.p, k.groups)
		var stats []T
		y := AnyOrder(t, p.RowChunks(), func() (func(int), func() []T) {
			y := dirty[T](len(k.x), false)
			stats = dirty[T](len(k.stats), false)
			return func(c int) { forward(&p, y, stats, k.x, k.w, k.b, layerNormEps, c) }, func() []T { return y }
		})
		tol := 16*k.scale + slack64[T](k.c*k.p)
		Close(t, k.y(), y, 8, tol, "y", k.n, k.c, k.p, k.groups)
		if len(k.x) > 0 {
			Close(t, k.stats, stats, 2, tol, "stats")
		}
		none := dirty[T](len(k.x), false)
		for c := range p.RowChunks() {
			forward(&p, none, nil, k.x, k.w, k.b, layerNormEps, c)
		}
		SameBits(t, y, none, "without stats")
		for _, add := range []bool{false, true} {
			got := AnyOrder(t, p.RowChunks(), func() (func(int), func() []T) {
				dx := dirty[T](len(k.x), add)
				return func(c int) { backward(&p, dx, add, k.g, k.x, k.w, rounded[T](k.stats), c) }, func() []T { return dx }
			})
			Close(t, plus(k.dx(false), dirty[T](len(k.x), add), add), got, 8, 2*tol*k.scale, "dx", k.n, k.c, k.p, k.groups, add)
		}
	})
}

// Running tests the running average and the use of given statistics.
func Running[T kernel.Float](t *testing.T, running func(running, new []T, share float64), given func(stats, mean, variance []T, eps float64)) {
	r := []T{0, 1, 2}
	running(r, []T{10, 1, T(math.NaN())}, 0.25)
	SameBits(t, []T{2.5, 1, T(math.NaN())}, r)
	stats := make([]T, 4)
	given(stats, []T{3, -1}, []T{4, 0}, 0)
	require.Equal(t, []T{3, 0.5, -1, T(math.Inf(1))}, stats)
}
