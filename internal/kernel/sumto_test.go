package kernel_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

func TestSumTo(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SumTo(t, kernel.SumPart[float32], kernel.SumFinish[float32])
	})
	kerneltest.SumTo(t, kernel.SumPart[float64], kernel.SumFinish[float64])
}

func TestSumToSpecials(t *testing.T) {
	eachFamily(t, func(t *testing.T) {
		kerneltest.SumToSpecials(t, kernel.SumPart[float32], kernel.SumFinish[float32])
	})
	kerneltest.SumToSpecials(t, kernel.SumPart[float64], kernel.SumFinish[float64])
}

// Halves are summed as float32 is, up to the last bit where rows are added up, and rounded once.
func TestMixedSum(t *testing.T) {
	for _, half := range halves {
		for _, k := range kerneltest.SumToCases() {
			n, to := kernel.Elems(k[0]), k[1]
			bits, x := make([]uint16, n), kerneltest.Rand[float32](n, 5)
			half.Round(bits, x)
			half.Widen(x, bits)
			p := kernel.NewSumTo(k[0], to)
			shared := make([]float64, p.SharedBytes()/8)
			want, got := make([]float32, kernel.Elems(to)), make([]float32, kernel.Elems(to))
			w := kernel.Contiguous(want, to)
			for c := range p.Chunks() {
				kernel.SumPart(&p, w, false, x, shared, c)
			}
			kernel.SumFinish(&p, w, false, shared)

			run := func(s kernel.MixedSum) {
				s.SumTo, s.Half = &p, half
				for c := range p.Chunks() {
					s.Part(shared, c)
				}
				s.Finish(shared)
			}
			run(kernel.MixedSum{SrcBits: bits, Dst: kernel.Contiguous(got, to)})
			for i := range want {
				require.InDelta(t, want[i], got[i], 1e-6*float64(1+p.Chunks()), "%v -> %v", k[0], to)
			}
			sums, rounded := make([]uint16, len(got)), make([]uint16, len(got))
			run(kernel.MixedSum{SrcBits: bits, DstBits: kernel.Contiguous(sums, to)})
			half.Round(rounded, got)
			require.Equal(t, rounded, sums, "%v -> %v", k[0], to)
			run(kernel.MixedSum{Src: x, DstBits: kernel.Contiguous(sums, to)})
			half.Round(rounded, want)
			require.Equal(t, rounded, sums, "%v -> %v", k[0], to)
		}
	}
}

func TestSumInts(t *testing.T) {
	kerneltest.SumInts(t, kernel.SumInts[int32], kernel.SumIntsFinish)
	kerneltest.SumInts(t, kernel.SumInts[int64], kernel.SumIntsFinish)
	kerneltest.SumInts(t, kernel.SumInts[uint8], kernel.SumIntsFinish)
	const odd = 1<<53 + 1 // float64 cannot hold it
	p, sum := kernel.NewSumTo([]int{2}, []int{1}), []int64{0}
	kernel.SumInts(&p, sum, []int64{odd, 0}, nil, 0)
	require.Equal(t, []int64{odd}, sum)
}

// Large sums can be shared among workers whatever they are reduced to, and their partial sums stay small.
func TestSumToPlan(t *testing.T) {
	for _, k := range [][2][]int{
		{{8192, 10}, {10}}, {{81920}, {}}, {{8192, 10}, {8192, 1}}, {{2048, 1536}, {1536}}, {{64, 32, 28, 28}, {32, 1, 1}}, {{8, 50257}, {50257}},
	} {
		p := kernel.NewSumTo(k[0], k[1])
		require.GreaterOrEqual(t, p.Chunks(), 4, k)
		require.LessOrEqual(t, p.Chunks(), 64, k)
		require.LessOrEqual(t, p.SharedBytes(), int64(64<<10), k)
	}
}

func TestSumToDoesNotAllocate(t *testing.T) {
	s, to := []int{4, 3, 5}, []int{3, 1}
	src, dst := make([]float32, 60), make([]float32, 3)
	kerneltest.NoAllocs(t, func() {
		p := kernel.NewSumTo(s, to)
		kernel.SumPart(&p, kernel.Contiguous(dst, to), false, src, nil, 0)
	})
}

func BenchmarkSumTo(b *testing.B) {
	for _, k := range [][2][]int{
		{{2048, 1536}, {1536}}, {{2048, 384}, {384}}, {{8192, 10}, {10}}, {{65536, 3}, {3}}, {{1 << 20}, {}}, {{8192, 128}, {8192, 1}},
		{{64, 64, 24, 24}, {64, 1, 1}}, {{8, 256, 384}, {256, 384}}, {{128, 16, 33, 7}, {128, 1, 33, 1}},
	} {
		n := kernel.Elems(k[0])
		src, dst := make([]float32, n), make([]float32, kernel.Elems(k[1]))
		p := kernel.NewSumTo(k[0], k[1])
		shared := make([]float64, p.SharedBytes()/8)
		b.Run(fmt.Sprint(k), func(b *testing.B) {
			perElement(b, n, 4, func() {
				for c := range p.Chunks() {
					kernel.SumPart(&p, kernel.Contiguous(dst, k[1]), true, src, shared, c)
				}
				kernel.SumFinish(&p, kernel.Contiguous(dst, k[1]), true, shared)
			})
		})
	}
}
