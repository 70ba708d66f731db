// relu, torch's way with NaN: it stays in y and its gradient passes.
//
//	forward   y = x <= 0 ? 0 : x, bit = !(x <= 0)       reads x
//	backward  dst = or += bit ? g : 0                   reads the bits: one an element, element i is bit i%8 of byte i/8
//
// A flat chunk starts at a multiple of 8 elements (ChunkSize), so its bits start on a byte: mask[lo/8:].
// The loops do not branch on data: half of all signs are a surprise to the branch predictor.

package kernel

import "unsafe"

// MaskBytes is the size of a mask of n bits.
func MaskBytes(n int) int { return (n + 7) / 8 }

// ReLU fills y and, unless mask is nil, the bits of which elements passed; bits beyond the last element are zero.
func ReLU[T Float](y, x []T, mask []uint8) {
	x = x[:len(y)]
	if reluFast(y, x, mask) {
		return
	}
	if mask == nil {
		for i, v := range x {
			y[i] = keepIf(passed(v), v)
		}
		return
	}
	for len(x) >= 8 {
		lo := relu4((*[4]T)(y), (*[4]T)(x))
		mask[0] = lo | relu4((*[4]T)(y[4:]), (*[4]T)(x[4:]))<<4
		x, y, mask = x[8:], y[8:], mask[1:]
	}
	if len(x) > 0 {
		var byte uint8
		for k, v := range x {
			bit := passed(v)
			y[k] = keepIf(bit, v)
			byte |= bit << k
		}
		mask[0] = byte
	}
}

// relu4 is four elements of ReLU and their bits.
func relu4[T Float](y, x *[4]T) uint8 {
	a, b, c, d := passed(x[0]), passed(x[1]), passed(x[2]), passed(x[3])
	y[0], y[1], y[2], y[3] = keepIf(a, x[0]), keepIf(b, x[1]), keepIf(c, x[2]), keepIf(d, x[3])
	return a | b<<1 | c<<2 | d<<3
}

// passed is 1 unless v <= 0, without a branch.
func passed[T Float](v T) uint8 {
	var b uint8
	if v <= 0 {
		b = 1
	}
	return b ^ 1
}

// ReLUBackward fills dst with g where the bit is set and 0 elsewhere, or adds it.
func ReLUBackward[T Float](dst []T, add bool, g []T, mask []uint8) {
	g = g[:len(dst)]
	if reluBackwardFast(dst, add, g, mask) {
		return
	}
	for len(g) >= 8 {
		b := mask[0]
		gate4((*[4]T)(dst), add, (*[4]T)(g), b)
		gate4((*[4]T)(dst[4:]), add, (*[4]T)(g[4:]), b>>4)
		dst, g, mask = dst[8:], g[8:], mask[1:]
	}
	for k, v := range g {
		v = keepIf(mask[0]>>k, v)
		if add {
			v += dst[k]
		}
		dst[k] = v
	}
}

func gate4[T Float](dst *[4]T, add bool, g *[4]T, bits uint8) {
	a, b, c, d := keepIf(bits, g[0]), keepIf(bits>>1, g[1]), keepIf(bits>>2, g[2]), keepIf(bits>>3, g[3])
	if add {
		a, b, c, d = dst[0]+a, dst[1]+b, dst[2]+c, dst[3]+d
	}
	dst[0], dst[1], dst[2], dst[3] = a, b, c, d
}

// keepIf is v if the lowest bit is set, +0 otherwise, without a branch.
func keepIf[T Float](bit uint8, v T) T {
	if unsafe.Sizeof(v) == 4 {
		u := *(*uint32)(unsafe.Pointer(&v)) & -uint32(bit&1)
		return *(*T)(unsafe.Pointer(&u))
	}
	u := *(*uint64)(unsafe.Pointer(&v)) & -uint64(bit&1)
	return *(*T)(unsafe.Pointer(&u))
}
