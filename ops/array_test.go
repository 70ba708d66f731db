package ops_test

import (
	"math"
	"slices"

	"github.com/thimble-ml/thimble/tensor"
)

// array is a tensor of a reference: float64, row-major, in Go's memory.
type array struct {
	shape []int
	data  []float64
}

func newArray(shape ...int) array {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return array{append([]int{}, shape...), make([]float64, n)}
}

// index gives the indices of element i.
func (a array) index(i int) []int {
	idx := make([]int, len(a.shape))
	for d := len(a.shape) - 1; d >= 0; d-- {
		idx[d], i = i%a.shape[d], i/a.shape[d]
	}
	return idx
}

// at reads with indices aligned at the last dimension: more are ignored on the left, and sizes of 1 repeat.
func (a array) at(idx ...int) float64 {
	off := 0
	for d, n := range a.shape {
		i := idx[len(idx)-len(a.shape)+d]
		if n == 1 {
			i = 0
		}
		off = off*n + i
	}
	return a.data[off]
}

// each fills a new array of the given shape.
func each(shape []int, f func(idx []int) float64) array {
	a := newArray(shape...)
	for i := range a.data {
		a.data[i] = f(a.index(i))
	}
	return a
}

func broadcast(a, b []int) []int {
	shape, err := tensor.BroadcastShapes(a, b)
	if err != nil {
		panic(err)
	}
	return append([]int{}, shape...)
}

// Naive references: the formulas, in float64.

func refLinear(in []array) array {
	x, w := in[0], in[1]
	last := len(x.shape) - 1
	n, k := w.shape[0], w.shape[1]
	y := newArray(append(append([]int{}, x.shape[:last]...), n)...)
	for i := range y.data {
		r, c := i/n, i%n
		if len(in) > 2 {
			y.data[i] = in[2].data[c]
		}
		for l := range k {
			y.data[i] += x.data[r*k+l] * w.data[c*k+l]
		}
	}
	return y
}

func refMatMul(in []array) array {
	a, b := in[0], in[1]
	row, col := len(a.shape) == 1, len(b.shape) == 1
	if row {
		a = array{[]int{1, a.shape[0]}, a.data}
	}
	if col {
		b = array{[]int{b.shape[0], 1}, b.data}
	}
	m, k, n := a.shape[len(a.shape)-2], a.shape[len(a.shape)-1], b.shape[len(b.shape)-1]
	batchA, batchB := numbers(a.shape[:len(a.shape)-2]), numbers(b.shape[:len(b.shape)-2])
	shape := broadcast(batchA.shape, batchB.shape)
	entries := newArray(shape...)
	if shape = append(shape, m, n); col {
		shape = shape[:len(shape)-1]
	}
	if row {
		shape = slices.Delete(shape, len(entries.shape), len(entries.shape)+1)
	}
	y := newArray(shape...)
	for i := range y.data {
		e, r, c := i/(m*n), i/n%m, i%n
		ea, eb := int(batchA.at(entries.index(e)...)), int(batchB.at(entries.index(e)...))
		for l := range k {
			y.data[i] += a.data[(ea*m+r)*k+l] * b.data[(eb*k+l)*n+c]
		}
	}
	return y
}

// numbers holds its elements' numbers.
func numbers(shape []int) array {
	a := newArray(shape...)
	for i := range a.data {
		a.data[i] = float64(i)
	}
	return a
}

func refAdd(in []array) array {
	return each(broadcast(in[0].shape, in[1].shape), func(idx []int) float64 { return in[0].at(idx...) + in[1].at(idx...) })
}

// refMap applies f to each element of input 0.
func refMap(f func(float64) float64) func([]array) array {
	return func(in []array) array {
		y := newArray(in[0].shape...)
		for i, v := range in[0].data {
			y.data[i] = f(v)
		}
		return y
	}
}

func reluOf(v float64) float64 { return math.Max(v, 0) }
func geluOf(v float64) float64 { return v * 0.5 * (1 + math.Erf(v/math.Sqrt2)) }
func geluTanhOf(v float64) float64 {
	return v / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
}

func refLayerNorm(dims int, eps float64) func([]array) array {
	return func(in []array) array {
		x := in[0]
		cols := newArray(x.shape[len(x.shape)-dims:]...)
		y, c := newArray(x.shape...), len(cols.data)
		for r := 0; c > 0 && r < len(x.data)/c; r++ {
			row := x.data[r*c:][:c]
			mean, variance := 0.0, 0.0
			for _, v := range row {
				mean += v / float64(c)
			}
			for _, v := range row {
				variance += (v - mean) * (v - mean) / float64(c)
			}
			for i, v := range row {
				z := (v - mean) / math.Sqrt(variance+eps)
				if len(in) > 1 {
					z *= in[1].data[i]
				}
				if len(in) > 2 {
					z += in[2].data[i]
				}
				y.data[r*c+i] = z
			}
		}
		return y
	}
}

func refCrossEntropy(in []array) array {
	x := in[0]
	c := x.shape[len(x.shape)-1]
	sum, n := 0.0, 0.0
	for r, target := range in[1].data {
		if target == -100 {
			continue
		}
		row, exps := x.data[r*c:][:c], 0.0
		for _, v := range row {
			exps += math.Exp(v)
		}
		sum += math.Log(exps) - row[int(target)]
		n++
	}
	return array{nil, []float64{sum / n}}
}

func refEmbedding(in []array) array {
	w, index := in[0], in[1]
	return each(append(append([]int{}, index.shape...), w.shape[1]), func(idx []int) float64 {
		n := len(idx) - 1
		return w.at(int(index.at(idx[:n]...)), idx[n])
	})
}

func refSlice(dim, lo, hi int) func([]array) array {
	return func(in []array) array {
		x := in[0]
		shape := append([]int{}, x.shape...)
		shape[dim] = hi - lo
		return each(shape, func(idx []int) float64 {
			i := append([]int{}, idx...)
			i[dim] += lo
			return x.at(i...)
		})
	}
}
