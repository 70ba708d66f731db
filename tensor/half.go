package tensor

import (
	"math"

	"github.com/x448/float16"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// Conversions from and to the half types go through float32, piece by piece. It holds every half exactly. What goes to a
// half must be rounded once, though: a float64 just above the middle of two halves, rounded to nearest, becomes the
// middle itself, and then goes to the even half, not to the nearer one. Hence float64 and integers are rounded to odd
// on the way (Boldo and Melquiond 2008): cut off toward zero, the last bit set if that lost anything. With two bits more
// than the half, which float32 has, nearest of odd is nearest.

// oddInt is v rounded to odd.
func oddInt(v int64) float32 {
	size := uint64(max(v, -v)) // 2^63 for the least
	f := float32(size)
	if back := uint64(f); back != size {
		bits := math.Float32bits(f)
		if back > size {
			bits--
		}
		f = math.Float32frombits(bits | 1)
	}
	if v < 0 {
		f = -f
	}
	return f
}

// toHalf is v as an element of a half type, rounded once.
func toHalf(dt DType, v float64) uint16 {
	if dt == Float16 {
		return float16.Fromfloat32(kernel.Odd32(v)).Bits()
	}
	return uint16(ToBF16(kernel.Odd32(v)))
}

// fromHalf is the value of an element of a half type.
func fromHalf(dt DType, bits uint16) float64 {
	if dt == Float16 {
		return float64(float16.Frombits(bits).Float32())
	}
	return float64(BF16(bits).Float32())
}

// convertHalf converts where one side is a half type.
func convertHalf(dst, src *Tensor) {
	var mid [chunk]float32
	var room [maxAxes]axis
	for w := over(room[:0], dst, src); w.next(); {
		for k := 0; k < w.n; k += chunk {
			piece := mid[:min(chunk, w.n-k)]
			src.loadFloats(piece, w.b+k*w.stepB, w.stepB)
			dst.storeFloats(w.a+k*w.stepA, w.stepA, piece)
		}
	}
}

// loadFloats fills dst, of at most chunk elements, with t's at places at, at+step... behind the first.
func (t *Tensor) loadFloats(dst []float32, at, step int) {
	switch t.spec.DType {
	case Float32:
		gather(dst, words[float32](t)[at:], step)
	case Float64:
		for k, s := 0, words[float64](t)[at:]; k < len(dst); k++ {
			dst[k] = kernel.Odd32(s[k*step])
		}
	case Float16:
		var h [chunk]uint16
		gather(h[:len(dst)], words[uint16](t)[at:], step)
		kernel.F16ToF32(dst, h[:len(dst)])
	case BFloat16:
		var h [chunk]uint16
		gather(h[:len(dst)], words[uint16](t)[at:], step)
		kernel.BF16ToF32(dst, h[:len(dst)])
	case Int64:
		loadIntegers(dst, words[int64](t)[at:], step)
	case Int32:
		loadIntegers(dst, words[int32](t)[at:], step)
	case Uint8, Bool:
		loadIntegers(dst, words[uint8](t)[at:], step)
	}
}

// storeFloats sets t's elements at places at, at+step... behind the first to src, of at most chunk elements.
func (t *Tensor) storeFloats(at, step int, src []float32) {
	switch t.spec.DType {
	case Float32:
		scatter(words[float32](t)[at:], step, src)
	case Float64:
		storeWide(words[float64](t)[at:], step, src)
	case Float16:
		putF16(words[uint16](t)[at:], step, src)
	case BFloat16:
		putBF16(words[uint16](t)[at:], step, src)
	case Int64:
		storeIntegers(words[int64](t)[at:], step, src)
	case Int32:
		storeIntegers(words[int32](t)[at:], step, src)
	case Uint8:
		storeIntegers(words[uint8](t)[at:], step, src)
	case Bool:
		for k, d := 0, words[uint8](t)[at:]; k < len(src); k++ {
			d[k*step] = 0
			if src[k] != 0 {
				d[k*step] = 1
			}
		}
	}
}

func gather[W uint16 | float32](dst, src []W, step int) {
	if step == 1 {
		copy(dst, src)
		return
	}
	for k := range dst {
		dst[k] = src[k*step]
	}
}

func scatter[W uint16 | float32](dst []W, step int, src []W) {
	if step == 1 {
		copy(dst, src)
		return
	}
	for k, v := range src {
		dst[k*step] = v
	}
}

func loadIntegers[S integer](dst []float32, src []S, step int) {
	for k := range dst {
		dst[k] = oddInt(int64(src[k*step]))
	}
}

func storeIntegers[D integer](dst []D, step int, src []float32) {
	for k, v := range src {
		dst[k*step] = truncated[D](float64(v))
	}
}

func storeWide(dst []float64, step int, src []float32) {
	for k, v := range src {
		dst[k*step] = float64(v)
	}
}

// putF16 rounds at most chunk values to float16.
func putF16(dst []uint16, step int, src []float32) {
	var h [chunk]uint16
	kernel.F32ToF16(h[:len(src)], src)
	scatter(dst, step, h[:len(src)])
}

// putBF16 rounds at most chunk values to bfloat16.
func putBF16(dst []uint16, step int, src []float32) {
	var h [chunk]uint16
	kernel.F32ToBF16(h[:len(src)], src)
	scatter(dst, step, h[:len(src)])
}
