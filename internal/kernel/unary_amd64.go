//go:build amd64 && !purego

package kernel

//go:generate go -C _gen run ./unary -out ../unary_amd64.s

// Functions of one operand with AVX2. Values are within two units in the last place, subnormal ones too; gradients are as
// exact as rounding each operation of unary.go's formulas to float32 makes them.

//go:noescape
func mapExp(n int, y, x *float32)

//go:noescape
func mapLog(n int, y, x *float32)

//go:noescape
func mapSqrt(n int, y, x *float32)

//go:noescape
func mapRsqrt(n int, y, x *float32)

//go:noescape
func mapReciprocal(n int, y, x *float32)

//go:noescape
func mapSquare(n int, y, x *float32)

//go:noescape
func mapAbs(n int, y, x *float32)

//go:noescape
func mapTanh(n int, y, x *float32)

//go:noescape
func mapSigmoid(n int, y, x *float32)

//go:noescape
func mapErf(n int, y, x *float32)

//go:noescape
func mapELU(n int, y, x *float32, a float32)

//go:noescape
func mapExpBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapLogBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapSqrtBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapRsqrtBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapReciprocalBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapSquareBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapAbsBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapTanhBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapSigmoidBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapErfBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapSoftplusBackward(n int, dx, dy, r *float32, add bool)

//go:noescape
func mapELUBackward(n int, dx, dy, x *float32, a float32, add bool)

// takes is ready for a routine whose bits are not those of the plain version: it runs for any length, so that an element's
// value does not depend on where pieces are cut.
func takes[T any](dst []T, operands ...[]T) bool {
	if !runsAVX2[T](len(dst)) {
		return false
	}
	for _, x := range operands {
		x = x[:len(dst)]
		if raceEnabled {
			touchRead(x)
		}
	}
	if raceEnabled {
		touchWrite(dst)
	}
	return true
}

// mapRowFast is mapRow, if there is a faster one for f and T on this processor.
func mapRowFast[T Float](f Unary, a float64, dst, src []T) bool {
	if !takes(dst, src) {
		return false
	}
	n, y, x := len(src), begin(dst), begin(src)
	switch f {
	case UnaryExp:
		mapExp(n, y, x)
	case UnaryLog:
		mapLog(n, y, x)
	case UnarySqrt:
		mapSqrt(n, y, x)
	case UnaryRsqrt:
		mapRsqrt(n, y, x)
	case UnaryReciprocal:
		mapReciprocal(n, y, x)
	case UnarySquare:
		mapSquare(n, y, x)
	case UnaryAbs:
		mapAbs(n, y, x)
	case UnaryTanh:
		mapTanh(n, y, x)
	case UnarySigmoid:
		mapSigmoid(n, y, x)
	case UnarySiLU:
		siluFloats(n, y, x)
	case UnaryErf:
		mapErf(n, y, x)
	case UnarySoftplus:
		mapSoftplus(n, y, x)
	case UnaryELU:
		mapELU(n, y, x, float32(a))
	case UnaryShift:
		rowAddScalar(n, y, x, float32(a))
	default:
		return mapWide(f, a, any(dst).([]float32), any(src).([]float32))
	}
	return true
}

// mapBackwardRowFast is mapBackwardRow, if there is a faster one for f and T on this processor.
func mapBackwardRowFast[T Float](f Unary, a float64, dst []T, add bool, g, read []T) bool {
	if !takes(dst, g, read) {
		return false
	}
	n, dx, dy, r := len(g), begin(dst), begin(g), begin(read)
	switch f {
	case UnaryExp:
		mapExpBackward(n, dx, dy, r, add)
	case UnaryLog:
		mapLogBackward(n, dx, dy, r, add)
	case UnarySqrt:
		mapSqrtBackward(n, dx, dy, r, add)
	case UnaryRsqrt:
		mapRsqrtBackward(n, dx, dy, r, add)
	case UnaryReciprocal:
		mapReciprocalBackward(n, dx, dy, r, add)
	case UnarySquare:
		mapSquareBackward(n, dx, dy, r, add)
	case UnaryAbs:
		mapAbsBackward(n, dx, dy, r, add)
	case UnaryTanh:
		mapTanhBackward(n, dx, dy, r, add)
	case UnarySigmoid:
		mapSigmoidBackward(n, dx, dy, r, add)
	case UnarySiLU:
		siluBackwardFloats(n, dx, dy, r, add)
	case UnaryErf:
		mapErfBackward(n, dx, dy, r, add)
	case UnarySoftplus:
		mapSoftplusBackward(n, dx, dy, r, add)
	case UnaryELU:
		mapELUBackward(n, dx, dy, r, float32(a), add)
	default:
		return mapBackwardWide(f, a, any(dst).([]float32), add, any(g).([]float32), any(read).([]float32))
	}
	return true
}
