//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./gate -out ../gate_amd64.s

// relu, leaky relu and clamp with AVX2: the same bits as the plain versions. Of a mask that is not nil as many bytes are
// written as elements begin.

//go:noescape
func reluFloats(n int, y, x *float32, mask *uint8)

//go:noescape
func leakyReLUFloats(n int, y, x *float32, slope float32, mask *uint8)

//go:noescape
func clampFloats(n int, y, x *float32, lo, hi float32, mask *uint8)

//go:noescape
func reluBackwardFloats(n int, dx, dy *float32, mask *uint8, add bool)

//go:noescape
func leakyReLUBackwardFloats(n int, dx, dy *float32, slope float32, mask *uint8, add bool)

// gatesFast is takes for a function with a mask, which it cuts. written says that the mask is.
func gatesFast[T Float](dst, x []T, mask []uint8, written bool) (bits *uint8, ok bool) {
	if !takes(dst, x) {
		return nil, false
	}
	if mask == nil && written {
		return nil, true
	}
	mask = mask[:MaskBytes(len(x))]
	if raceEnabled {
		if touchRead(mask); written {
			touchWrite(mask)
		}
	}
	return &mask[0], true
}

// reluFast is ReLU, if there is a faster one for T on this processor.
func reluFast[T Float](y, x []T, mask []uint8) bool {
	bits, ok := gatesFast(y, x, mask, true)
	if ok {
		reluFloats(len(x), begin(y), begin(x), bits)
	}
	return ok
}

// leakyReLUFast is LeakyReLU, if there is a faster one for T on this processor.
func leakyReLUFast[T Float](y, x []T, slope float64, mask []uint8) bool {
	bits, ok := gatesFast(y, x, mask, true)
	if ok {
		leakyReLUFloats(len(x), begin(y), begin(x), float32(slope), bits)
	}
	return ok
}

// clampFast is Clamp, if there is a faster one for T on this processor. Bounds that are NaN are left to the plain one.
func clampFast[T Float](y, x []T, lo, hi T, mask []uint8) bool {
	if lo != lo || hi != hi {
		return false
	}
	bits, ok := gatesFast(y, x, mask, true)
	if ok {
		clampFloats(len(x), begin(y), begin(x), float32(lo), float32(hi), bits)
	}
	return ok
}

// reluBackwardFast is ReLUBackward, if there is a faster one for T on this processor.
func reluBackwardFast[T Float](dst []T, add bool, g []T, mask []uint8) bool {
	bits, ok := gatesFast(dst, g, mask, false)
	if ok {
		reluBackwardFloats(len(g), begin(dst), begin(g), bits, add)
	}
	return ok
}

// leakyReLUBackwardFast is LeakyReLUBackward, if there is a faster one for T on this processor.
func leakyReLUBackwardFast[T Float](dst []T, add bool, g []T, slope float64, mask []uint8) bool {
	bits, ok := gatesFast(dst, g, mask, false)
	if ok {
		leakyReLUBackwardFloats(len(g), begin(dst), begin(g), float32(slope), bits, add)
	}
	return ok
}
