package tensor

import (
	"fmt"
	"math"
)

// Fill sets every element to v, converted as Convert does from Float64. An expanded view is refused.
func Fill(t *Tensor, v float64) error {
	if t.expanded() {
		return fmt.Errorf("tensor: fill %v: %w", t.spec, errExpanded)
	}
	t.Bump()
	if !t.writable() {
		return nil
	}
	bits := encode(t.spec.DType, v)
	switch t.spec.DType.Size() {
	case 1:
		fillWords(t, uint8(bits))
	case 2:
		fillWords(t, uint16(bits))
	case 4:
		fillWords(t, uint32(bits))
	case 8:
		fillWords(t, bits)
	}
	return nil
}

func fillWords[W uint8 | uint16 | uint32 | uint64](t *Tensor, v W) {
	d := words[W](t)
	var room [maxAxes]axis
	for w := over(room[:0], t, t); w.next(); {
		if w.stepA == 1 {
			fillRun(d[w.a:w.a+w.n], v)
			continue
		}
		for k, i := 0, w.a; k < w.n; k, i = k+1, i+w.stepA {
			d[i] = v
		}
	}
}

func fillRun[W uint8 | uint16 | uint32 | uint64](run []W, v W) {
	if v == 0 {
		clear(run)
		return
	}
	for i := range run {
		run[i] = v
	}
}

// encode is the bits of v as an element of dt, in the low bytes.
func encode(dt DType, v float64) (bits uint64) {
	switch dt {
	case Float32:
		return uint64(math.Float32bits(float32(v)))
	case Float64:
		return math.Float64bits(v)
	case Int64:
		return uint64(truncated[int64](v))
	case Int32:
		return uint64(truncated[int32](v))
	case Uint8:
		return uint64(truncated[uint8](v))
	case Bool:
		if v != 0 {
			bits = 1
		}
		return bits
	default:
		return uint64(toHalf(dt, v))
	}
}

// FillRange sets the elements, in row-major order, to start, start+step, start+2*step... computed in float64 and
// converted as Convert does: torch's arange into an existing tensor. Bool is refused.
func FillRange(t *Tensor, start, step float64) error {
	if t.spec.DType == Bool {
		return fmt.Errorf("tensor: fill range %v: want a float or an integer dtype", t.spec)
	}
	if t.expanded() {
		return fmt.Errorf("tensor: fill range %v: %w", t.spec, errExpanded)
	}
	t.Bump()
	if t.writable() {
		generate(t, arange{start, step})
	}
	return nil
}

type arange struct{ start, step float64 }

func (a arange) values(dst []float64, at uint64) {
	for i := range dst {
		// The conversion of the product keeps machines with a fused multiply-add from rounding once only.
		dst[i] = a.start + float64(a.step*float64(at+uint64(i)))
	}
}
