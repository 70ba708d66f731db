//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./activation -out ../activation_amd64.s

// GELU, its tanh form, SiLU and SwiGLU with AVX2, and their gradients. Values are within two units in the last place or
// 2^-22, whichever is more, silu within two units everywhere; gradients within 2^-20.

//go:noescape
func geluFloats(n int, y, x *float32)

//go:noescape
func geluTanhFloats(n int, y, x *float32)

//go:noescape
func siluFloats(n int, y, x *float32)

//go:noescape
func geluBackwardFloats(n int, dx, dy, x *float32, add bool)

//go:noescape
func geluTanhBackwardFloats(n int, dx, dy, x *float32, add bool)

//go:noescape
func siluBackwardFloats(n int, dx, dy, x *float32, add bool)

//go:noescape
func swigluFloats(n int, y, gate, up *float32)

// swigluBackwardFloats makes the gradients that are not nil.
//
//go:noescape
func swigluBackwardFloats(n int, dgate, dup, dy, gate, up *float32, addGate, addUp bool)

// geluFast is GELU, if there is a faster one for T on this processor.
func geluFast[T Float](y, x []T) bool {
	if !takes(y, x) {
		return false
	}
	geluFloats(len(x), begin(y), begin(x))
	return true
}

// geluTanhFast is GELUTanh, if there is a faster one for T on this processor.
func geluTanhFast[T Float](y, x []T) bool {
	if !takes(y, x) {
		return false
	}
	geluTanhFloats(len(x), begin(y), begin(x))
	return true
}

// geluBackwardFast is GELUBackward, if there is a faster one for T on this processor.
func geluBackwardFast[T Float](dst []T, add bool, g, x []T) bool {
	if !takes(dst, x, g) {
		return false
	}
	geluBackwardFloats(len(x), begin(dst), begin(g), begin(x), add)
	return true
}

// geluTanhBackwardFast is GELUTanhBackward, if there is a faster one for T on this processor.
func geluTanhBackwardFast[T Float](dst []T, add bool, g, x []T) bool {
	if !takes(dst, x, g) {
		return false
	}
	geluTanhBackwardFloats(len(x), begin(dst), begin(g), begin(x), add)
	return true
}

// swigluFast is swigluRow, if there is a faster one for T on this processor.
func swigluFast[T Float](y, x, u []T) bool {
	if !takes(y, x, u) {
		return false
	}
	swigluFloats(len(x), begin(y), begin(x), begin(u))
	return true
}

// swigluBackwardFast is swigluBackwardRow, if there is a faster one for T on this processor.
func swigluBackwardFast[T Float](dgate, dup []T, addGate, addUp bool, g, x, u []T) bool {
	if !runsAVX2[T](len(x)) {
		return false
	}
	if g = g[:len(x)]; dgate != nil {
		dgate, u = dgate[:len(x)], u[:len(x)]
	}
	if dup != nil {
		dup = dup[:len(x)]
	}
	if raceEnabled {
		touchRead(g, x, u)
		touchWrite(dgate, dup)
	}
	swigluBackwardFloats(len(x), begin(dgate), begin(dup), begin(g), begin(x), begin(u), addGate, addUp)
	return true
}
