package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// linesCases are shapes and a dimension: rows, neighbouring lines by fewer, as many and more than a strip, nothing.
func linesCases(run func(shape []int, d int, l kernel.Lines, msg string)) {
	const c = kernel.ChunkSize
	for _, k := range []struct {
		shape []int
		d     int
	}{
		{[]int{1}, 0}, {[]int{7}, 0}, {[]int{0}, 0}, {[]int{3, 0}, 1}, {[]int{0, 3}, 1}, {[]int{3, 0}, 0}, {[]int{5, 1}, 1}, {[]int{5, 1}, 0},
		{[]int{5, 9}, 1}, {[]int{9, 5}, 0}, {[]int{2, 6, 64}, 1}, {[]int{2, 6, 65}, 1}, {[]int{2, 5, 3, 50}, 1}, {[]int{3, 129, 2}, 1},
		{[]int{300, 211}, 1}, {[]int{211, 300}, 0}, {[]int{40, 30, 33}, 1}, {[]int{2, c + 3}, 1}, {[]int{c + 3, 2}, 0}, {[]int{2, 300, 130}, 1},
	} {
		run(k.shape, k.d, kernel.LinesAlong(k.shape, k.d), fmt.Sprint(k.shape, k.d))
	}
}

// eachLine calls f with the places of the elements of each line.
func eachLine(l kernel.Lines, f func(at []int)) {
	for o := range l.Outer {
		for i := range l.Inner {
			var at []int
			for r := range l.N {
				at = append(at, (o*l.N+r)*l.Inner+i)
			}
			f(at)
		}
	}
}

// inLines runs the chunks in any order.
func inLines[T kernel.Float](t *testing.T, l kernel.Lines, fresh func() []T, run func(dst []T, c int)) []T {
	return AnyOrder(t, l.Chunks(), func() (func(int), func() []T) {
		dst := fresh()
		return func(c int) { run(dst, c) }, func() []T { return dst }
	})
}

type (
	// LinesFunc has the signature of kernel.Softmax and kernel.LogSoftmax.
	LinesFunc[T kernel.Float] = func(l kernel.Lines, y, x []T, c int)
	// LinesBackwardFunc has the signature of kernel.SoftmaxBackward and kernel.LogSoftmaxBackward.
	LinesBackwardFunc[T kernel.Float] = func(l kernel.Lines, dx []T, add bool, g, y []T, c int)
)

// Softmax tests softmax and log-softmax.
func Softmax[T kernel.Float](t *testing.T, forward, logForward LinesFunc[T]) {
	linesCases(func(_ []int, _ int, l kernel.Lines, msg string) {
		n := l.Elems()
		x := Rand[T](n, 1)
		want, wantLog := make([]float64, n), make([]float64, n)
		line := 0
		eachLine(l, func(at []int) {
			lineCorner(x, at, line)
			line++
			naiveSoftmax(x, at, want, wantLog)
		})
		fresh := func() []T { return dirty[T](n, false) }
		got := inLines(t, l, fresh, func(y []T, c int) { forward(l, y, x, c) })
		Close(t, want, got, 4+slack64[T](l.N), 0, "softmax", msg)
		SameBits(t, got, inLines(t, l, func() []T { return clone(x) }, func(y []T, c int) { forward(l, y, y, c) }), "in place", msg)
		got = inLines(t, l, fresh, func(y []T, c int) { logForward(l, y, x, c) })
		Close(t, wantLog, got, 4, 4+slack64[T](l.N), "log-softmax", msg)
		SameBits(t, got, inLines(t, l, func() []T { return clone(x) }, func(y []T, c int) { logForward(l, y, y, c) }), "in place", msg)
	})
}

// lineCorner makes some lines extreme.
func lineCorner[T kernel.Float](x []T, at []int, line int) {
	if len(at) < 2 {
		return
	}
	put := func(i int, v float64) { x[at[i%len(at)]] = T(v) }
	switch line % 12 {
	case 1:
		put(1, 1e4)
	case 2:
		put(0, math.Inf(-1))
	case 3:
		put(len(at)-1, math.Inf(1))
	case 4:
		put(1, math.NaN())
	case 5:
		for i := range at {
			put(i, math.Inf(-1))
		}
	case 6:
		for i := range at {
			put(i, -1e6)
		}
	case 7:
		put(0, math.NaN())
		put(1, math.Inf(1))
	}
}

func naiveSoftmax[T kernel.Float](x []T, at []int, y, logs []float64) {
	top := math.Inf(-1)
	var sum total
	for _, i := range at {
		top = math.Max(top, float64(x[i]))
	}
	bad := math.IsNaN(top) || math.IsInf(top, 0)
	for _, i := range at {
		sum.add(math.Exp(float64(x[i]) - top))
	}
	for _, i := range at {
		d := float64(x[i]) - top
		y[i], logs[i] = math.Exp(d)/sum.value(), d-math.Log(sum.value())
		if bad {
			y[i], logs[i] = math.NaN(), math.NaN()
		}
	}
}

// SoftmaxBackward tests the gradients.
func SoftmaxBackward[T kernel.Float](t *testing.T, backward, logBackward LinesBackwardFunc[T]) {
	linesCases(func(_ []int, _ int, l kernel.Lines, msg string) {
		n := l.Elems()
		x, g := Rand[T](n, 1), Rand[T](n, 2)
		y, logs := make([]float64, n), make([]float64, n)
		want, wantLog := make([]float64, n), make([]float64, n)
		var size float64
		eachLine(l, func(at []int) {
			naiveSoftmax(x, at, y, logs)
			var gy, sum total
			var abs float64
			for _, i := range at {
				y[i], logs[i] = float64(T(y[i])), float64(T(logs[i]))
				gy.add(float64(g[i]) * y[i])
				sum.add(float64(g[i]))
				abs += math.Abs(float64(g[i]))
			}
			for _, i := range at {
				want[i], wantLog[i] = y[i]*(float64(g[i])-gy.value()), float64(g[i])-math.Exp(logs[i])*sum.value()
			}
			size = max(size, abs)
		})
		slack := 2 + 64*size*Eps[float64]()/Eps[T]()
		for _, add := range []bool{false, true} {
			for k, f := range []LinesBackwardFunc[T]{backward, logBackward} {
				out, w := make([]T, n), want
				for i := range out {
					if out[i] = T(y[i]); k == 1 {
						out[i], w = T(logs[i]), wantLog
					}
				}
				got := inLines(t, l, func() []T { return dirty[T](n, add) }, func(dx []T, c int) { f(l, dx, add, g, out, c) })
				Close(t, plus(w, dirty[T](n, add), add), got, 2, slack, "backward", k, msg, add)
				if !add {
					SameBits(t, got, inLines(t, l, func() []T { return clone(g) }, func(dx []T, c int) { f(l, dx, false, dx, out, c) }), "in place", k, msg)
				}
			}
		}
	})
}

// CumSum tests running sums from both ends.
func CumSum[T kernel.Float](t *testing.T, cumSum func(l kernel.Lines, y []T, add bool, x []T, fromEnd bool, c int)) {
	linesCases(func(_ []int, _ int, l kernel.Lines, msg string) {
		n := l.Elems()
		x := Rand[T](n, 1)
		if n > 100 {
			x[n/2], x[n/3] = T(math.NaN()), T(math.Inf(1))
		}
		for _, fromEnd := range []bool{false, true} {
			want, size := make([]float64, n), 0.0
			eachLine(l, func(at []int) {
				var sum total
				var abs float64
				for k := range at {
					i := at[k]
					if fromEnd {
						i = at[len(at)-1-k]
					}
					sum.add(float64(x[i]))
					want[i] = sum.value()
					if v := math.Abs(float64(x[i])); v < 1e9 {
						abs += v
					}
				}
				size = max(size, abs)
			})
			slack := 64 * size * Eps[float64]() / Eps[T]()
			for _, add := range []bool{false, true} {
				got := inLines(t, l, func() []T { return dirty[T](n, add) }, func(y []T, c int) { cumSum(l, y, add, x, fromEnd, c) })
				rel, abs := 1.0, slack
				if add {
					rel, abs = 2, slack+2*size*Eps[float64]()/Eps[T]()+4
				}
				Close(t, plus(want, dirty[T](n, add), add), got, rel, abs, msg, fromEnd, add)
			}
			got := inLines(t, l, func() []T { return dirty[T](n, false) }, func(y []T, c int) { cumSum(l, y, false, x, fromEnd, c) })
			SameBits(t, got, inLines(t, l, func() []T { return clone(x) }, func(y []T, c int) { cumSum(l, y, false, y, fromEnd, c) }), "in place", msg)
		}
	})
}
