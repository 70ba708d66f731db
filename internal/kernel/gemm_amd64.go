//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./gemm -out ../gemm_amd64.s

// The float32 product with AVX2 and FMA: tiles of 6 x 16, whose twelve sums, with two vectors of B and two elements of A,
// are all the registers there are. A is packed into panels of six rows and B into panels of sixteen columns, element
// (i, k) of a panel next to (i+1, k). GEMM.check has seen that every index lies in its slice; what is read past an edge
// is masked or a repeated row, and what is computed past an edge goes to a tile of its own.
const (
	avxRows = 6
	avxCols = 16
	avxStep = 8 // of k, that rows are transposed by
)

// gemmSweep16 computes C[rows 16] = A[rows k] B[k 16] for one panel of up to six rows after the other, plus bias[16] unless nil,
// plus C if add. Element (i, l) of A is at a[i*row+l*step], and the next panel at a[next]; element (l, j) of B at b[l*ldb+j]. C, of
// leading dimension ldc, goes on with the next panel's rows. Products are added in ascending order of k, fused. Unless mask is
// nil it is one of 16 and says which columns of C exist. What lies at ahead is fetched into the second cache meanwhile, four bytes
// for each k and panel. rows, k and panels are at least 1.
//
//go:noescape
func gemmSweep16(rows, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, ahead *float32, add bool)

// gemmSweep8 is gemmSweep16 for 8 columns.
//
//go:noescape
func gemmSweep8(rows, k, panels int, a *float32, next, row, step int, b *float32, ldb int, c *float32, ldc int, bias *float32, mask *int32, ahead *float32, add bool)

// gemmPackRows6 packs 8*eights elements of up to six rows, at least one, into a panel of six, whose missing rows are the
// last one again.
//
//go:noescape
func gemmPackRows6(dst, src *float32, ld, rows, eights int)

// gemmPackRows16 packs 8*eights elements of up to eight rows, at least one, into eight columns of a panel of sixteen.
//
//go:noescape
func gemmPackRows16(dst, src *float32, ld, rows, eights int)

// gemmPackCols6 packs rows of up to six elements into a panel of six. The mask is of eight; what it leaves out is 0.
//
//go:noescape
func gemmPackCols6(dst, src *float32, ld, rows int, mask *int32)

// gemmPackCols12 and gemmPackCols16 pack rows of up to twelve or sixteen elements into a panel of as many.
//
//go:noescape
func gemmPackCols12(dst, src *float32, ld, rows int, mask *int32)

//go:noescape
func gemmPackCols16(dst, src *float32, ld, rows int, mask *int32)

// gemmPackPanels6 packs rows of 6*panels elements into panels of six.
//
//go:noescape
func gemmPackPanels6(dst, src *float32, ld, rows, panels int)

// gemmPackPanels12 and gemmPackPanels16 pack rows of 12*panels or 16*panels elements into panels of twelve or sixteen.
//
//go:noescape
func gemmPackPanels12(dst, src *float32, ld, rows, panels int)

//go:noescape
func gemmPackPanels16(dst, src *float32, ld, rows, panels int)

// gemmRow64 computes sum[64] = x[k] B[k 64], in the order of gemmSweep16.
//
//go:noescape
func gemmRow64(sum, x *float32, k int, b *float32, ldb int)

// gemmRow16 is gemmRow64 for up to 16 columns; sum has room for 16.
//
//go:noescape
func gemmRow16(sum, x *float32, k int, b *float32, ldb int, mask *int32)

// gemmDots8 computes sum[8] = M[8 k] x[k], in the order of gemmSweep16, for up to eight rows, at least one; sum has room
// for eight. The mask is for what k leaves over of 8.
//
//go:noescape
func gemmDots8(sum, x *float32, k int, m *float32, ld, rows int, mask *int32)

// avxMasks holds a mask for n of up to 16 elements, from element 16-n on.
var avxMasks = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

func avxMask(n int) *int32 { return &avxMasks[16-n] }
