package kerneltest

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

type (
	// ReducePartFunc has the signature of kernel.ReducePart.
	ReducePartFunc[T kernel.Float, D kernel.Float | int64] = func(p *kernel.Reduce, dst []D, stat, src []T, shared []float64, c int)
	// ReduceFinishFunc has the signature of kernel.ReduceFinish.
	ReduceFinishFunc[T kernel.Float, D kernel.Float | int64] = func(p *kernel.Reduce, dst []D, stat []T, shared []float64)
)

// reductions are those that give floating point.
var reductions = []kernel.Reduction{
	kernel.ReduceSum, kernel.ReduceMean, kernel.ReduceNorm1, kernel.ReduceNorm2, kernel.ReduceMax, kernel.ReduceMin,
	kernel.ReduceNormInf, kernel.ReduceVar, kernel.ReduceStd, kernel.ReduceLogSumExp,
}

// reduceCase is x of shape s, reduced to shape to, of the same rank.
type reduceCase[T kernel.Float] struct {
	op         kernel.Reduction
	s, to      []int
	correction int
	x          []T
	column     []int // of each element
	columns    [][]float64
}

func newReduceCase[T kernel.Float](s, to []int, x []T) *reduceCase[T] {
	k := &reduceCase[T]{s: s, x: x, correction: 1}
	for range len(s) - len(to) {
		k.to = append(k.to, 1)
	}
	k.to = append(k.to, to...)
	k.columns = make([][]float64, kernel.Elems(k.to))
	strides := reducedStrides(k.s, k.to)
	for i, v := range x {
		c := offsetOf(i, s, strides)
		k.column = append(k.column, c)
		k.columns[c] = append(k.columns[c], float64(v))
	}
	return k
}

// reducedStrides are those of a contiguous result of shape to over s.
func reducedStrides(s, to []int) []int {
	strides, n := make([]int, len(s)), 1
	for d := len(s) - 1; d >= 0; d-- {
		if to[d] == s[d] {
			strides[d] = n
		}
		n *= to[d]
	}
	return strides
}

// offsetOf is where element i of a shape lies.
func offsetOf(i int, shape, strides []int) (at int) {
	for d := len(shape) - 1; d >= 0; d-- {
		at += i % shape[d] * strides[d]
		i /= shape[d]
	}
	return at
}

// naive gives the result and the statistic of one column.
func (k *reduceCase[T]) naive(x []float64) (y, stat float64) {
	var sum, abs, squares total
	top, bottom, largest := math.Inf(-1), math.Inf(1), 0.0
	for _, v := range x {
		sum.add(v)
		abs.add(math.Abs(v))
		squares.add(v * v)
		top, bottom, largest = math.Max(top, v), math.Min(bottom, v), math.Max(largest, math.Abs(v))
	}
	n := float64(len(x))
	ties := func(m float64, f func(float64) float64) float64 {
		var c float64
		for _, v := range x {
			if f(v) == m {
				c++
			}
		}
		return c
	}
	same := func(v float64) float64 { return v }
	switch k.op {
	case kernel.ReduceSum:
		return sum.value(), 0
	case kernel.ReduceMean:
		return sum.value() / n, 0
	case kernel.ReduceNorm1:
		return abs.value(), 0
	case kernel.ReduceNorm2:
		return math.Sqrt(squares.value()), 0
	case kernel.ReduceMax:
		return top, ties(top, same)
	case kernel.ReduceMin:
		return bottom, ties(bottom, same)
	case kernel.ReduceNormInf:
		return largest, ties(largest, math.Abs)
	case kernel.ReduceVar, kernel.ReduceStd:
		mean := sum.value() / n
		var d total
		for _, v := range x {
			d.add((v - mean) * (v - mean))
		}
		v := d.value() / max(0, n-float64(k.correction))
		if k.op == kernel.ReduceStd {
			v = math.Sqrt(v)
		}
		return v, mean
	}
	var e total
	if math.IsInf(top, 0) {
		return top, 0
	}
	for _, v := range x {
		e.add(math.Exp(v - top))
	}
	return top + math.Log(e.value()), 0
}

// arg is the first largest or smallest, or the first NaN.
func arg(x []float64, sign float64) (at float64) {
	for i, v := range x {
		if a := x[int(at)]; !math.IsNaN(a) && (math.IsNaN(v) || sign*v > sign*a) {
			at = float64(i)
		}
	}
	return at
}

// run reduces in any order. The second half of what it gives is the statistics.
func (k *reduceCase[T]) run(t *testing.T, part ReducePartFunc[T, T], finish ReduceFinishFunc[T, T], stat bool) []T {
	p := kernel.NewReduce(k.op, k.s, k.to, k.correction)
	require.LessOrEqual(t, p.SharedBytes(), int64(1<<19))
	n := len(k.columns)
	return AnyOrder(t, p.Chunks(), func() (func(int), func() []T) {
		out := dirty[T](2*n, false)
		var stats []T
		if stat {
			stats = out[n:]
		}
		shared := filled(int(p.SharedBytes()/8), math.NaN())
		return func(c int) { part(&p, out[:n:n], stats, k.x, shared, c) },
			func() []T { finish(&p, out[:n:n], stats, shared); return out }
	})
}

// wanted by naive.
func (k *reduceCase[T]) wanted() (y, stat []float64, size float64) {
	for _, col := range k.columns {
		v, s := k.naive(col)
		y, stat = append(y, v), append(stat, s)
		sum := 0.0
		for _, v := range col {
			sum += math.Abs(v) + v*v
		}
		if sum > size && !math.IsInf(sum, 0) {
			size = sum
		}
	}
	return y, stat, size
}

// hasMaximum: a maximum of nothing is refused before a kernel is asked.
func (k *reduceCase[T]) hasMaximum() bool {
	for _, col := range k.columns {
		if len(col) == 0 {
			return k.op != kernel.ReduceMax && k.op != kernel.ReduceMin
		}
	}
	return true
}

// Reduce tests all reductions but argmax and argmin over many shapes.
func Reduce[T kernel.Float](t *testing.T, part ReducePartFunc[T, T], finish ReduceFinishFunc[T, T]) {
	for _, dims := range SumToCases() {
		x := Rand[T](kernel.Elems(dims[0]), 1)
		for i := range x {
			x[i] = T(math.Round(float64(x[i])*8)/8) + 1 // ties, and a mean that is not 0
		}
		k := newReduceCase(dims[0], dims[1], x)
		for _, k.op = range reductions {
			if !k.hasMaximum() {
				continue
			}
			y, stat, size := k.wanted()
			msg := fmt.Sprint(k.s, " -> ", k.to, " reduction ", k.op)
			n := len(y)
			got := k.run(t, part, finish, false)
			Close(t, y, got[:n], 2, 64*size*Eps[float64]()/Eps[T](), msg)
			require.True(t, n == 0 || math.IsNaN(float64(got[n])), "no statistics were wanted")
			full := k.run(t, part, finish, true)
			SameBits(t, got[:n], full[:n], msg)
			if k.op >= kernel.ReduceMax && k.op != kernel.ReduceLogSumExp {
				Close(t, stat, full[n:], 2, 64*size*Eps[float64]()/Eps[T](), "statistics", msg)
			}
		}
	}
}

// ReduceArg tests argmax and argmin, where many are equal and some NaN.
func ReduceArg[T kernel.Float](t *testing.T, part ReducePartFunc[T, int64], finish ReduceFinishFunc[T, int64]) {
	for _, dims := range SumToCases() {
		for _, special := range []bool{false, true} {
			x := Rand[T](kernel.Elems(dims[0]), 1)
			for i := range x {
				x[i] = T(math.Round(float64(x[i]) * 2))
				if special && i%3 > 0 {
					x[i] = T(math.Inf(i%3*2 - 3))
				}
				if special && i%1009 == 1008 {
					x[i] = T(math.NaN())
				}
			}
			k := newReduceCase(dims[0], dims[1], x)
			for _, k.op = range []kernel.Reduction{kernel.ReduceArgMax, kernel.ReduceArgMin} {
				if !k.hasMaximum() {
					continue
				}
				sign := 1.0
				if k.op == kernel.ReduceArgMin {
					sign = -1
				}
				p := kernel.NewReduce(k.op, k.s, k.to, 0)
				got := AnyOrder(t, p.Chunks(), func() (func(int), func() []float64) {
					dst := filled(len(k.columns), int64(-1))
					shared := filled(int(p.SharedBytes()/8), math.NaN())
					return func(c int) { part(&p, dst, nil, x, shared, c) }, func() []float64 {
						finish(&p, dst, nil, shared)
						var at []float64
						for _, v := range dst {
							at = append(at, float64(v))
						}
						return at
					}
				})
				for c, col := range k.columns {
					require.Equal(t, arg(col, sign), got[c], "%v -> %v, %v, column %d", k.s, k.to, k.op, c)
				}
			}
		}
	}
}

// ReduceCorners tests what NaN, infinities and zeros give: along a row and down columns, in one cell and over several.
func ReduceCorners[T kernel.Float](t *testing.T, part ReducePartFunc[T, T], finish ReduceFinishFunc[T, T]) {
	inf, nan := math.Inf(1), math.NaN()
	cases := []struct {
		op      kernel.Reduction
		x       []float64
		y, stat float64
	}{
		{kernel.ReduceSum, []float64{1, inf, -inf}, nan, 0}, {kernel.ReduceMean, []float64{1, nan, 2}, nan, 0},
		{kernel.ReduceNorm1, []float64{-inf, 1}, inf, 0}, {kernel.ReduceNorm1, []float64{nan, 1}, nan, 0},
		{kernel.ReduceNorm2, []float64{-inf, 1}, inf, 0}, {kernel.ReduceNorm2, []float64{1, nan}, nan, 0},
		{kernel.ReduceNormInf, []float64{-inf, inf, 1}, inf, 2}, {kernel.ReduceNormInf, []float64{0, 0}, 0, 2},
		{kernel.ReduceNormInf, []float64{nan, inf}, nan, 0}, {kernel.ReduceNormInf, []float64{1, inf, nan, -inf}, nan, 0},
		{kernel.ReduceMax, []float64{1, nan, inf}, nan, 0}, {kernel.ReduceMax, []float64{inf, 1, inf, nan}, nan, 0},
		{kernel.ReduceMax, []float64{-inf, -inf}, -inf, 2}, {kernel.ReduceMin, []float64{inf, inf, inf}, inf, 3},
		{kernel.ReduceMin, []float64{nan, 1}, nan, 0}, {kernel.ReduceMin, []float64{-inf, 2}, -inf, 1},
		{kernel.ReduceVar, []float64{inf, 1}, nan, inf}, {kernel.ReduceVar, []float64{1, nan}, nan, nan},
		{kernel.ReduceStd, []float64{3, 3, 3}, 0, 3},
		{kernel.ReduceLogSumExp, []float64{-inf, -inf}, -inf, 0}, {kernel.ReduceLogSumExp, []float64{-inf, 2}, 2, 0},
		{kernel.ReduceLogSumExp, []float64{inf, 2, -inf}, inf, 0}, {kernel.ReduceLogSumExp, []float64{inf, nan}, nan, 0},
		{kernel.ReduceLogSumExp, []float64{-1e5, -1e5}, -1e5 + math.Ln2, 0}, {kernel.ReduceLogSumExp, []float64{1e5, 1e5, -inf}, 1e5 + math.Ln2, 0},
	}
	for _, k := range cases {
		for _, gap := range []int{0, 1, 3, kernel.ChunkSize} { // how many neutral elements stand between
			x, fill := spread(k.op, k.x, gap)
			for _, cols := range []int{1, 2} {
				data := make([]T, len(x)*cols)
				for i := range data {
					if data[i] = T(fill); i%cols == cols-1 {
						data[i] = T(x[i/cols])
					}
				}
				c := newReduceCase([]int{len(x), cols}, []int{1, cols}, data)
				c.op = k.op
				y, stat := k.y, k.stat
				got := c.run(t, part, finish, true)
				Close(t, []float64{y}, got[cols-1:cols], 2, 0, k, gap, cols)
				if k.op >= kernel.ReduceMax && k.op != kernel.ReduceLogSumExp && !math.IsNaN(k.y) {
					Close(t, []float64{stat}, got[2*cols-1:], 2, 0, "statistic", k, gap, cols)
				}
			}
		}
	}
}

// spread puts gap elements that change no result between the elements of x.
func spread(op kernel.Reduction, x []float64, gap int) (wide []float64, fill float64) {
	switch op {
	case kernel.ReduceMax, kernel.ReduceLogSumExp:
		fill = math.Inf(-1)
		if gap > 0 && x[0] == fill && x[1] == fill {
			gap = 0
		}
	case kernel.ReduceMin:
		fill = math.Inf(1)
		if x[0] == fill {
			gap = 0
		}
	case kernel.ReduceNormInf:
		if x[0] == 0 {
			gap = 0
		}
	case kernel.ReduceStd:
		gap = 0
	}
	for i, v := range x {
		if i > 0 {
			wide = append(wide, filled(gap, fill)...)
		}
		wide = append(wide, v)
	}
	return wide, fill
}

// ReduceGrad tests the gradients of all reductions, and TieBits with them.
func ReduceGrad[T kernel.Float](t *testing.T, backward func(o *kernel.ReduceGrad[T], lo, hi int)) {
	for _, dims := range SumToCases() {
		n := kernel.Elems(dims[0])
		x := Rand[T](n, 1)
		for i := range x {
			x[i] = T(math.Round(float64(x[i])*4) / 4)
		}
		k := newReduceCase(dims[0], dims[1], x)
		for _, k.op = range reductions {
			if !k.hasMaximum() {
				continue
			}
			o, want := k.gradient()
			if k.op == kernel.ReduceMax || k.op == kernel.ReduceMin {
				o.Bits = filled(kernel.MaskBytes(n), uint8(0xff))
				for c := range kernel.Chunks(n) {
					lo, hi := kernel.Range(n, c)
					kernel.TieBits(o.Bits, x, k.s, o.Out, o.Strides, lo, hi)
				}
				o.X, o.Out = nil, nil
			}
			for _, add := range []bool{false, true} {
				if n > 10000 && add == (k.op%2 == 0) {
					continue // half of the large ones will do
				}
				o.Add = add
				got := AnyOrder(t, kernel.Chunks(n), func() (func(int), func() []T) {
					o := *o
					o.DX = dirty[T](n, add)
					return func(c int) {
						lo, hi := kernel.Range(n, c)
						backward(&o, lo, hi)
					}, func() []T { return o.DX }
				})
				Close(t, plus(want, dirty[T](n, add), add), got, 4, 2, fmt.Sprint(k.s, " -> ", k.to, " reduction ", k.op, add))
			}
		}
	}
}

// gradient makes the operands, rounded as an op stores them, and the gradient by the formulas.
func (k *reduceCase[T]) gradient() (*kernel.ReduceGrad[T], []float64) {
	n := len(k.columns)
	o := &kernel.ReduceGrad[T]{
		Op: k.op, Shape: k.s, Strides: reducedStrides(k.s, k.to), G: Rand[T](n, 2), X: k.x, Out: make([]T, n), Stat: make([]T, n), K: 1,
	}
	rows := float64(len(k.x)) / float64(n)
	switch k.op {
	case kernel.ReduceMean:
		o.K = 1 / rows
	case kernel.ReduceVar:
		o.K = 2 / (rows - 1)
	case kernel.ReduceStd:
		o.K = 1 / (rows - 1)
	}
	for c, col := range k.columns {
		y, stat := k.naive(col)
		o.Out[c], o.Stat[c] = T(y), T(stat)
	}
	want := make([]float64, len(k.x))
	for i, v := range k.x {
		c := k.column[i]
		want[i] = k.slope(float64(v), float64(o.G[c]), float64(o.Out[c]), float64(o.Stat[c]), o.K)
	}
	return o, want
}

func (k *reduceCase[T]) slope(x, g, out, stat, factor float64) float64 {
	zero := func(v float64) float64 {
		if out == 0 {
			return 0
		}
		return v
	}
	where := func(is bool, v float64) float64 {
		if is {
			return v
		}
		return 0
	}
	sign := where(x > 0, 1) - where(x < 0, 1)
	switch k.op {
	case kernel.ReduceNorm1:
		return g * sign
	case kernel.ReduceNorm2:
		return zero(g * x / out)
	case kernel.ReduceMax, kernel.ReduceMin:
		return where(x == out, g/stat)
	case kernel.ReduceNormInf:
		return where(math.Abs(x) == out, g*sign/stat)
	case kernel.ReduceVar:
		return factor * g * (x - stat)
	case kernel.ReduceStd:
		return zero(factor * g * (x - stat) / out)
	case kernel.ReduceLogSumExp:
		return g * math.Exp(x-out)
	}
	return factor * g
}
