package tensor

import "github.com/thimble-ml/thimble/internal/kernel"

// source is a rule for elements: dst[i] becomes the value of the element with row-major index at+i, at being a multiple of
// chunk. What it gives for an index depends on nothing else, so that chunks, strides and workers change no value.
type source interface {
	values(dst []float64, at uint64)
}

// chunk is how many values generate asks for at once: an even number, so that no pair of normal values is cut.
const chunk = 256

// generate fills t, of any float or integer dtype, from src.
func generate(t *Tensor, src source) {
	switch t.spec.DType {
	case Float32:
		generateAs(t, src, putFloats[float32])
	case Float64:
		generateAs(t, src, putFloats[float64])
	case Float16:
		generateAs(t, src, putOddF16)
	case BFloat16:
		generateAs(t, src, putOddBF16)
	case Int64:
		generateAs(t, src, putIntegers[int64])
	case Int32:
		generateAs(t, src, putIntegers[int32])
	case Uint8:
		generateAs(t, src, putIntegers[uint8])
	}
}

// generateAs takes values chunk by chunk and lays them out run by run; put is called once for each piece of either.
func generateAs[D float | integer | uint16](t *Tensor, src source, put func(dst []D, step int, v []float64)) {
	d := words[D](t)
	var buf [chunk]float64
	var ready []float64
	var at uint64
	left := t.Elems()
	var room [maxAxes]axis
	for w := over(room[:0], t, t); w.next(); {
		for i, n := w.a, w.n; n > 0; {
			if len(ready) == 0 {
				ready = buf[:min(left, chunk)]
				src.values(ready, at)
				at, left = at+uint64(len(ready)), left-len(ready)
			}
			m := min(n, len(ready))
			put(d[i:], w.stepA, ready[:m])
			i, n, ready = i+m*w.stepA, n-m, ready[m:]
		}
	}
}

func putFloats[D float](dst []D, step int, v []float64) {
	for k, x := range v {
		dst[k*step] = D(x)
	}
}

// putOddF16 rounds to float16, once.
func putOddF16(dst []uint16, step int, v []float64) {
	var mid [chunk]float32
	putF16(dst, step, oddAll(mid[:len(v)], v))
}

// putOddBF16 rounds to bfloat16, once.
func putOddBF16(dst []uint16, step int, v []float64) {
	var mid [chunk]float32
	putBF16(dst, step, oddAll(mid[:len(v)], v))
}

func oddAll(mid []float32, v []float64) []float32 {
	for k, x := range v {
		mid[k] = kernel.Odd32(x)
	}
	return mid
}

func putIntegers[D integer](dst []D, step int, v []float64) {
	for k, x := range v {
		dst[k*step] = truncated[D](x)
	}
}
