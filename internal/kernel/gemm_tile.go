package kernel

import "unsafe"

// The micro-kernel. What it costs in plain Go was found by measuring tiles from 1 x 8 to 6 x 2 and 4 x 4, and reading
// what the compiler makes of them; on amd64, per core of a Zen 3 at 3.16 GHz, whose scalar limit is 12.6 GFLOP/s:
//
//   - There are 15 registers, and MULSS overwrites a factor, so a multiplication and an addition are three
//     instructions with the copy. 2 x 4 is the widest tile of convenient width whose sums, factors and copies all stay
//     in registers; 3 x 4 and more go through the stack at every step, at less than half the speed.
//   - The compiler puts instructions in the order of their source lines, so each sum has a line of its own, next to
//     the load of its factor.
//   - But it delays values that nothing in the same basic block uses, such as a sum in the last line of a loop's body,
//     to the end of the block: all products of the last step are then alive at once and spill. What saves it is a loop
//     whose condition is at the bottom: its body is one block with the loop's phis, which count as uses. The same lines
//     under "for p := range" run at 9.2 GFLOP/s instead of 11.
//   - Eight steps of k an iteration, because at its end the compiler shuffles all eight sums between registers.
//   - Bounds are checked once, by slicing. Offsets from three fixed pointers save 2% over three slices of arrays.
const (
	tileRows  = 2
	tileCols  = 4
	tileSteps = 8
)

// tile computes sum[i*tileCols+j] = sum over k of ai[k] * panel[k*tileCols+j], for the len(a0) steps that there are.
// a1 is as long as a0. The race detector, under which it would take most of the time, need not look inside: operands are
// read where they are packed and C is written by store.
//
//go:norace
func tile[T Float](a0, a1, panel []T, sum *[tileRows * tileCols]T) {
	var c00, c01, c02, c03 T
	var c10, c11, c12, c13 T
	n := len(a0) / tileSteps
	a1, panel = a1[:len(a0)], panel[:len(a0)*tileCols] // panics unless they are long enough for all that follows
	if n > 0 {
		var e T
		xs, ys, bs := unsafe.SliceData(a0), unsafe.SliceData(a1), unsafe.SliceData(panel)
		end := uintptr(n) * tileSteps * unsafe.Sizeof(e)
		for p, q := uintptr(0), uintptr(0); ; {
			x := (*[tileSteps]T)(unsafe.Add(unsafe.Pointer(xs), p))
			y := (*[tileSteps]T)(unsafe.Add(unsafe.Pointer(ys), p))
			b := (*[tileSteps * tileCols]T)(unsafe.Add(unsafe.Pointer(bs), q))

			x0, y0 := x[0], y[0]
			b00 := b[0]
			c00 += x0 * b00
			c10 += y0 * b00
			b01 := b[1]
			c01 += x0 * b01
			c11 += y0 * b01
			b02 := b[2]
			c02 += x0 * b02
			c12 += y0 * b02
			b03 := b[3]
			c03 += x0 * b03
			c13 += y0 * b03

			x1, y1 := x[1], y[1]
			b10 := b[4]
			c00 += x1 * b10
			c10 += y1 * b10
			b11 := b[5]
			c01 += x1 * b11
			c11 += y1 * b11
			b12 := b[6]
			c02 += x1 * b12
			c12 += y1 * b12
			b13 := b[7]
			c03 += x1 * b13
			c13 += y1 * b13

			x2, y2 := x[2], y[2]
			b20 := b[8]
			c00 += x2 * b20
			c10 += y2 * b20
			b21 := b[9]
			c01 += x2 * b21
			c11 += y2 * b21
			b22 := b[10]
			c02 += x2 * b22
			c12 += y2 * b22
			b23 := b[11]
			c03 += x2 * b23
			c13 += y2 * b23

			x3, y3 := x[3], y[3]
			b30 := b[12]
			c00 += x3 * b30
			c10 += y3 * b30
			b31 := b[13]
			c01 += x3 * b31
			c11 += y3 * b31
			b32 := b[14]
			c02 += x3 * b32
			c12 += y3 * b32
			b33 := b[15]
			c03 += x3 * b33
			c13 += y3 * b33

			x4, y4 := x[4], y[4]
			b40 := b[16]
			c00 += x4 * b40
			c10 += y4 * b40
			b41 := b[17]
			c01 += x4 * b41
			c11 += y4 * b41
			b42 := b[18]
			c02 += x4 * b42
			c12 += y4 * b42
			b43 := b[19]
			c03 += x4 * b43
			c13 += y4 * b43

			x5, y5 := x[5], y[5]
			b50 := b[20]
			c00 += x5 * b50
			c10 += y5 * b50
			b51 := b[21]
			c01 += x5 * b51
			c11 += y5 * b51
			b52 := b[22]
			c02 += x5 * b52
			c12 += y5 * b52
			b53 := b[23]
			c03 += x5 * b53
			c13 += y5 * b53

			x6, y6 := x[6], y[6]
			b60 := b[24]
			c00 += x6 * b60
			c10 += y6 * b60
			b61 := b[25]
			c01 += x6 * b61
			c11 += y6 * b61
			b62 := b[26]
			c02 += x6 * b62
			c12 += y6 * b62
			b63 := b[27]
			c03 += x6 * b63
			c13 += y6 * b63

			x7, y7 := x[7], y[7]
			b70 := b[28]
			c00 += x7 * b70
			c10 += y7 * b70
			b71 := b[29]
			c01 += x7 * b71
			c11 += y7 * b71
			b72 := b[30]
			c02 += x7 * b72
			c12 += y7 * b72
			b73 := b[31]
			c03 += x7 * b73
			c13 += y7 * b73

			p, q = p+unsafe.Sizeof(*x), q+unsafe.Sizeof(*b)
			if p >= end {
				break
			}
		}
	}
	for k := n * tileSteps; k < len(a0); k++ {
		x, y := a0[k], a1[k]
		b := (*[tileCols]T)(panel[k*tileCols:])
		c00 += x * b[0]
		c10 += y * b[0]
		c01 += x * b[1]
		c11 += y * b[1]
		c02 += x * b[2]
		c12 += y * b[2]
		c03 += x * b[3]
		c13 += y * b[3]
	}
	*sum = [tileRows * tileCols]T{c00, c01, c02, c03, c10, c11, c12, c13}
}

// steps is s cut into arrays of type A. What is left over at the end is left out.
func steps[A any, T Float](s []T) []A {
	var a A
	var e T
	return unsafe.Slice((*A)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(e))/int(unsafe.Sizeof(a)))
}
