//go:build amd64 && !purego

package kernel

// The float64 product with AVX2 and FMA: tiles of 6 x 8, otherwise as those of float32 (gemm_amd64.go): the same
// panels of six rows, and panels of eight columns, half as wide as float32's.
const (
	doubleCols = 8
	doubleStep = 4 // of k, that rows are transposed by
)

// gemmSweepDouble8 is gemmSweep16 of float64 and of 8 columns.
//
//go:noescape
func gemmSweepDouble8(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, ahead *float64, add bool)

// gemmSweepDouble4 is gemmSweepDouble8 for 4 columns.
//
//go:noescape
func gemmSweepDouble4(rows, k, panels int, a *float64, next, row, step int, b *float64, ldb int, c *float64, ldc int, bias *float64, mask *int64, ahead *float64, add bool)

// gemmPackRowsDouble6 packs 4*fours elements of up to six rows, at least one, into a panel of six, whose missing rows are the
// last one again.
//
//go:noescape
func gemmPackRowsDouble6(dst, src *float64, ld, rows, fours int)

// gemmPackRowsDouble8 is gemmPackRowsDouble6 for eight rows.
//
//go:noescape
func gemmPackRowsDouble8(dst, src *float64, ld, rows, fours int)

// gemmRowDouble32 computes sum[32] = x[k] B[k 32], in the order of a tile.
//
//go:noescape
func gemmRowDouble32(sum, x *float64, k int, b *float64, ldb int)

// gemmRowDouble8 is gemmRowDouble32 for up to 8 columns; sum has room for 8.
//
//go:noescape
func gemmRowDouble8(sum, x *float64, k int, b *float64, ldb int, mask *int64)

// gemmDotsDouble8 is gemmDots8 of float64. The mask is for what k leaves over of 4.
//
//go:noescape
func gemmDotsDouble8(sum, x *float64, k int, m *float64, ld, rows int, mask *int64)

// doubleMasks holds a mask for n of up to 8 elements, from element 8-n on.
var doubleMasks = [16]int64{-1, -1, -1, -1, -1, -1, -1, -1}

func doubleMask(n int) *int64 { return &doubleMasks[doubleCols-n] }

// dotsDouble is dotsAVX2 of float64.
func dotsDouble(sum, x, m []float64, ld int) {
	var eight [8]float64
	for j := 0; j < len(sum); j += len(eight) {
		n := min(len(eight), len(sum)-j)
		if raceEnabled {
			touchRows(m[j*ld:], n, ld, len(x))
		}
		gemmDotsDouble8(&eight[0], &x[0], len(x), &m[j*ld], ld, n, doubleMask(len(x)%doubleStep))
		copy(sum[j:], eight[:n])
	}
}

// addRowsDouble is addRowsAVX2 of float64.
func addRowsDouble(sum, x, m []float64, ld int) {
	if raceEnabled {
		touchRows(m, len(x), ld, len(sum))
	}
	j := 0
	for ; j+32 <= len(sum); j += 32 {
		gemmRowDouble32(&sum[j], &x[0], len(x), &m[j], ld)
	}
	var some [8]float64
	for ; j < len(sum); j += len(some) {
		n := min(len(some), len(sum)-j)
		gemmRowDouble8(&some[0], &x[0], len(x), &m[j], ld, doubleMask(n))
		copy(sum[j:], some[:n])
	}
}
