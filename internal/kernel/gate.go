// Functions that are straight on both sides of a bend, whose gradient needs one bit an element and nothing else:
//
//	leaky relu   y = x > 0 ? x : slope x                bit = x > 0               dx = bit ? g : slope g
//	clamp        y = x < lo ? lo : x > hi ? hi : x      bit = lo <= x <= hi       dx = bit ? g : 0 (ReLUBackward)
//
// NaN passes through both; its bit is 0, as in torch. Bits lie as those of relu do: element i is bit i%8 of byte i/8.

package kernel

// LeakyReLU fills y and, unless mask is nil, the bits.
func LeakyReLU[T Float](y, x []T, slope float64, mask []uint8) {
	if leakyReLUFast(y, x, slope, mask) {
		return
	}
	factor := [2]T{T(slope), 1}
	for len(x) > 0 {
		n := min(len(x), 8)
		var bits uint8
		for k, v := range x[:n] {
			b := bit(v > 0)
			y[k] = v * factor[b&1]
			bits |= b << k
		}
		if mask != nil {
			mask[0] = bits
			mask = mask[1:]
		}
		x, y = x[n:], y[n:]
	}
}

// LeakyReLUBackward fills dst with g where the bit is set and slope g elsewhere, or adds it.
func LeakyReLUBackward[T Float](dst []T, add bool, g []T, slope float64, mask []uint8) {
	if leakyReLUBackwardFast(dst, add, g, slope, mask) {
		return
	}
	factor := [2]T{T(slope), 1}
	for len(g) > 0 {
		n := min(len(g), 8)
		bits, d := mask[0], dst[:n]
		for k, v := range g[:n] {
			v *= factor[bits>>k&1]
			if add {
				v += d[k]
			}
			d[k] = v
		}
		g, dst, mask = g[n:], dst[n:], mask[1:]
	}
}

// Clamp fills y and, unless mask is nil, the bits. Where lo > hi, y is hi.
func Clamp[T Float](y, x []T, lo, hi T, mask []uint8) {
	if clampFast(y, x, lo, hi, mask) {
		return
	}
	for len(x) > 0 {
		n := min(len(x), 8)
		var bits uint8
		for k, v := range x[:n] {
			bits |= bit(v >= lo) & bit(v <= hi) << k
			y[k] = min(max(v, lo), hi)
		}
		if mask != nil {
			mask[0] = bits
			mask = mask[1:]
		}
		x, y = x[n:], y[n:]
	}
}
