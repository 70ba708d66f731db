//go:build amd64 && !purego

package kernel

import "unsafe"

//go:generate go -C _gen run ./panel -out ../panel_amd64.s

// Products of what was packed by a caller who knows its operands better than GEMM does: attention and convolution. The
// right operand B is a panel: rows of sixteen elements, one after the other. The left one, A, is read as its transpose
// [k rows], whose rows may be apart; so a panel can be a left operand too. Sums are added up as in gemmSweep16, which could do
// what panelProduct does. But it looks at bias, mask and steps for every panel and fetches C ahead, so that it takes 1.05 to 1.14
// of the time where k is 9 to 64, as here.

// panelProduct computes C[m 16] = A[k m]^T B[k 16], plus C if add, for m = 6 six + 4 four. Rows of A and C are lda and ldc
// elements apart. k is at least 1.
//
//go:noescape
func panelProduct(k int, a *float32, lda int, b, c *float32, ldc, six, four int, add bool)

// panelRowProduct is panelProduct for A[m k], whose rows are lda elements apart. Unless bias is nil, sums of a row start from
// its bias.
//
//go:noescape
func panelRowProduct(k int, a *float32, lda int, b, c *float32, ldc, six, four int, bias *float32, add bool)

// panelTapProduct is panelRowProduct for a B whose rows begin at offsets, in elements from b, and which C is filled with.
//
//go:noescape
func panelTapProduct(k int, a *float32, lda int, b *float32, offsets *int64, c *float32, ldc, six, four int, bias *float32)

// panelTaps adds A[k 6]^T B[k 16] to C[6 16], where k are rows x cols places: of place (r, c), A has the elements at the six
// offsets from x[r (cols step + jump) + c step]. rows and cols are at least 1.
//
//go:noescape
func panelTaps(rows, cols int, x *float32, offsets *int64, step, jump int, b, c *float32, ldc int)

// panelPatch is lanes lo to hi of a row of a panel, and elements from off on of a plane: lane i is element off+i.
type panelPatch struct {
	off    int
	lo, hi int32
}

// panelGather fills every rows-th row of a panel, one for each of the channels, whose planes are so far apart: with what each
// patch names, and 0 where none does. There is at least one channel and one patch.
//
//go:noescape
func panelGather(panel *float32, rows int, planes *float32, plane, channels, count int, patches *panelPatch)

// panelScatter adds the rows of a panel to where panelGather had read them. It writes elements off to off+15 whatever lanes a
// patch has.
//
//go:noescape
func panelScatter(panel *float32, rows int, planes *float32, plane, channels, count int, patches *panelPatch)

// panelTranspose sets dst[8*eights 8] to factor times the transpose of src[8 8*eights]. rows, from 1 to 8, of src exist;
// others are the last one again.
//
//go:noescape
func panelTranspose(dst *float32, ldd int, src *float32, lds, rows, eights int, factor float32)

// panelPack sets dst[rows 16] to factor times src, of whose rows the mask leaves some elements; others are 0. It adds
// x*0 for all x to the eight flags, which so become NaN where an x is not finite. rows is at least 1.
//
//go:noescape
func panelPack(dst, src *float32, lds, rows int, mask *int32, factor float32, flags *float32)

// panelGroups is how a number of rows is cut into groups of six and of four. It may be a few more than n: three for less
// than seven rows, else one, and never beyond the next multiple of 16.
func panelGroups(n int) (six, four int) {
	six, four = n/6, 0
	switch n % 6 {
	case 1, 2: // 7 or 8 are two fours
		if six--; six < 0 {
			return 0, 1
		}
		four = 2
	case 3, 4:
		four = 1
	case 5:
		six++
	}
	return six, four
}

// multiplyPanel is panelProduct for n rows of C, which has room for as many as panelGroups makes of them, as A has.
func multiplyPanel(k int, a []float32, lda int, b, c []float32, ldc, n int, add bool) {
	six, four := panelGroups(n)
	if m := 6*six + 4*four - 1; raceEnabled && k > 0 && n > 0 {
		_, _, _ = a[(k-1)*lda+m], b[k*panelCols-1], c[m*ldc+panelCols-1]
	}
	panelProduct(k, unsafe.SliceData(a), lda, unsafe.SliceData(b), unsafe.SliceData(c), ldc, six, four, add)
}

// transposePanel sets dst[n m] to factor times the transpose of src[m n]. Columns of dst from m to the next multiple of 8
// are finite where src's last row is.
func transposePanel(dst []float32, ldd int, src []float32, lds, m, n int, factor float32) {
	if raceEnabled {
		touchRows(src, m, lds, n)
	}
	for i := 0; i < m; i += 8 {
		rows := min(8, m-i)
		if n >= 8 {
			panelTranspose(&dst[i], ldd, &src[i*lds], lds, rows, n/8, factor)
		}
		for k := n &^ 7; k < n; k++ {
			to := dst[k*ldd+i:][:8]
			for r := range to {
				to[r] = factor * src[(i+min(r, rows-1))*lds+k]
			}
		}
	}
}

// packPanels packs src[rows n] into panels, and tells whether it is finite.
func packPanels(dst, src []float32, lds, rows, n int, factor float32) (finite bool) {
	if raceEnabled {
		touchRows(src, rows, lds, n)
	}
	var flags [8]float32
	for j := 0; j < n; j += panelCols {
		panelPack(&dst[j*rows], &src[j], lds, rows, avxMask(min(panelCols, n-j)), factor, &flags[0])
	}
	return flags == [8]float32{}
}

// tailRows is how many rows the last group of a product has whose rows are packed apart: those that panelGroups would have
// to read more of than there are.
func tailRows(n int) int {
	switch {
	case n < 4:
		return n
	case n%2 == 0:
		return 0
	case n%6 == 5:
		return 1
	}
	return 3
}

// leftRows is a left operand whose rows lie along k. Those at the end that do not make a group are copied, with others to
// make one.
type leftRows struct {
	data []float32
	ld   int
	n    int       // rows
	tail []float32 // room for four
}

// rightRows is a right operand: a panel, or rows of sixteen elements that begin at offsets, for products that fill C.
type rightRows struct {
	data    []float32
	offsets []int64
}

func (r rightRows) product(k int, a *float32, lda int, c *float32, ldc, six, four int, bias *float32, add bool) {
	if r.offsets != nil {
		panelTapProduct(k, a, lda, &r.data[0], &r.offsets[0], c, ldc, six, four, bias)
		return
	}
	panelRowProduct(k, a, lda, &r.data[0], c, ldc, six, four, bias, add)
}

// multiply computes C[n 16] = rows[n k] right, from column k0 on, plus bias, which has one for each row, or nil, plus C if add.
func (w *leftRows) multiply(k0, k int, right rightRows, c []float32, ldc int, bias []float32, add bool) {
	tail := tailRows(w.n)
	main := w.n - tail
	if main > 0 {
		var b *float32
		if bias != nil {
			b = &bias[0]
		}
		six, four := panelGroups(main)
		right.product(k, &w.data[k0], w.ld, &c[0], ldc, six, four, b, add)
	}
	if tail > 0 {
		w.multiplyTail(main, tail, k0, k, right, c[main*ldc:], ldc, bias, add)
	}
}

func (w *leftRows) multiplyTail(main, tail, k0, k int, right rightRows, c []float32, ldc int, bias []float32, add bool) {
	var sum [4 * panelCols]float32
	var four [4]float32
	for r := range tail {
		copy(w.tail[r*k:][:k], w.data[(main+r)*w.ld+k0:])
		if add {
			copy(sum[r*panelCols:][:panelCols], c[r*ldc:])
		}
	}
	for r := tail; r < 4; r++ {
		copy(w.tail[r*k:][:k], w.tail[:k])
	}
	var b *float32
	if bias != nil {
		copy(four[:], bias[main:main+tail])
		b = &four[0]
	}
	right.product(k, &w.tail[0], k, &sum[0], panelCols, 0, 1, b, add)
	for r := range tail {
		copy(c[r*ldc:][:panelCols], sum[r*panelCols:])
	}
}
