package kernel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestReduce(t *testing.T) {
	kerneltest.Reduce(t, kernel.ReducePart[float32, float32], kernel.ReduceFinish[float32, float32])
	kerneltest.Reduce(t, kernel.ReducePart[float64, float64], kernel.ReduceFinish[float64, float64])
}

func TestReduceArg(t *testing.T) {
	kerneltest.ReduceArg(t, kernel.ReducePart[float32, int64], kernel.ReduceFinish[float32, int64])
	kerneltest.ReduceArg(t, kernel.ReducePart[float64, int64], kernel.ReduceFinish[float64, int64])
}

func TestReduceCorners(t *testing.T) {
	kerneltest.ReduceCorners(t, kernel.ReducePart[float32, float32], kernel.ReduceFinish[float32, float32])
	kerneltest.ReduceCorners(t, kernel.ReducePart[float64, float64], kernel.ReduceFinish[float64, float64])
}

func TestReduceGrad(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.ReduceGrad(t, (*kernel.ReduceGrad[float32]).Range)
	})
	kerneltest.ReduceGrad(t, (*kernel.ReduceGrad[float64]).Range)
}

func TestReduceDoesNotAllocate(t *testing.T) {
	s, to, strides := []int{4, 3, 5}, []int{1, 3, 1}, []int{0, 1, 0}
	x, y, stat := kerneltest.Rand[float32](60, 1), make([]float32, 3), make([]float32, 3)
	kerneltest.NoAllocs(t, func() {
		p := kernel.NewReduce(kernel.ReduceVar, s, to, 1)
		kernel.ReducePart(&p, y, stat, x, nil, 0)
		kernel.ReduceFinish(&p, y, stat, nil)
		o := kernel.ReduceGrad[float32]{Op: kernel.ReduceVar, DX: x, Shape: s, Strides: strides, G: y, X: x, Stat: stat, K: 1}
		o.Range(0, 60)
	})
}

func BenchmarkReduce(b *testing.B) {
	for _, op := range []struct {
		name string
		op   kernel.Reduction
	}{{"max", kernel.ReduceMax}, {"var", kernel.ReduceVar}, {"logsumexp", kernel.ReduceLogSumExp}, {"norm2", kernel.ReduceNorm2}} {
		for _, k := range [][2][]int{{{2048, 384}, {2048, 1}}, {{2048, 384}, {1, 384}}, {{64, 64, 24, 24}, {1, 64, 1, 1}}, {{1 << 18, 3}, {1 << 18, 1}}} {
			n := kernel.Elems(k[0])
			x, y := kerneltest.Rand[float32](n, 1), make([]float32, kernel.Elems(k[1]))
			p := kernel.NewReduce(op.op, k[0], k[1], 1)
			shared := make([]float64, p.SharedBytes()/8)
			b.Run(fmt.Sprint(op.name, k), func(b *testing.B) {
				perElement(b, n, 4, func() {
					for c := range p.Chunks() {
						kernel.ReducePart(&p, y, nil, x, shared, c)
					}
					kernel.ReduceFinish[float32](&p, y, nil, shared)
				})
			})
			o := kernel.ReduceGrad[float32]{
				Op: op.op, DX: make([]float32, n), Shape: k[0], Strides: make([]int, len(k[0])), G: y, X: x, Out: y, Stat: y,
				Bits: make([]uint8, kernel.MaskBytes(n)), K: 1,
			}
			for d := range k[0] {
				if k[0][d] == k[1][d] {
					o.Strides[d] = kernel.Elems(k[1][d+1:])
				}
			}
			b.Run(fmt.Sprint(op.name, k, "/backward"), func(b *testing.B) {
				perElement(b, n, 8, func() { chunked(n, o.Range) })
			})
		}
	}
}

func TestReducePlan(t *testing.T) {
	one := kernel.NewReduce(kernel.ReduceMax, []int{3, 4}, []int{3, 1}, 0)
	require.Equal(t, 1, one.Chunks())
	require.Zero(t, one.SharedBytes())
	two := kernel.NewReduce(kernel.ReduceMax, []int{1 << 20}, []int{1}, 0)
	require.Equal(t, int64(two.Chunks()*2*8), two.SharedBytes())
}
