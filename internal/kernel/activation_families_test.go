package kernel_test

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/thimble-ml/thimble/internal/kernel"
	"github.com/thimble-ml/thimble/internal/kernel/kerneltest"
)

// unaryNames are the functions of one operand that have versions.
var unaryNames = map[kernel.Unary]string{
	kernel.UnaryExp: "exp", kernel.UnaryLog: "log", kernel.UnarySqrt: "sqrt", kernel.UnaryRsqrt: "rsqrt", kernel.UnaryReciprocal: "reciprocal",
	kernel.UnarySquare: "square", kernel.UnaryAbs: "abs", kernel.UnaryTanh: "tanh", kernel.UnarySigmoid: "sigmoid", kernel.UnarySiLU: "silu",
	kernel.UnaryShift: "shift", kernel.UnaryPow: "pow", kernel.UnarySin: "sin", kernel.UnaryCos: "cos", kernel.UnaryErf: "erf",
	kernel.UnarySoftplus: "softplus", kernel.UnaryELU: "elu",
}

// unaryConstants are those of the functions that have one, where a test says no other.
var unaryConstants = map[kernel.Unary]float64{kernel.UnaryShift: 0.3, kernel.UnaryPow: 2.5, kernel.UnaryELU: 0.7}

var geluKernels = []struct {
	name     string
	forward  func(y, x []float32)
	backward func(dst []float32, add bool, g, x []float32)
}{
	{"gelu", kernel.GELU[float32], kernel.GELUBackward[float32]},
	{"gelu tanh", kernel.GELUTanh[float32], kernel.GELUTanhBackward[float32]},
}

// activationKernels are functions of one operand, activations, gates, softmax and conversions.
func activationKernels() []rowKernel {
	all := unaryKernels()
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name, bytes, start})
	}
	for _, f := range geluKernels {
		add(f.name, 8, func(o *operands, n int) func() {
			y, x := o.dst(n), o.src(n)
			return func() { f.forward(y, x) }
		})
		for _, to := range []bool{false, true} {
			add(f.name+[]string{" backward", " backward added"}[bits(to)], 12+4*bits(to), func(o *operands, n int) func() {
				dst, g, x := o.dst(n), o.src(n), o.src(n)
				return func() { f.backward(dst, to, g, x) }
			})
		}
	}
	all = append(all, swigluKernels()...)
	all = append(all, gateKernels()...)
	all = append(all, softmaxKernels()...)
	return append(all, conversionKernels()...)
}

func unaryKernels() []rowKernel {
	var all []rowKernel
	for f := kernel.UnaryShift; f <= kernel.UnaryELU; f++ {
		name, ok := unaryNames[f]
		if !ok {
			continue
		}
		all = append(all, rowKernel{name, 8, func(o *operands, n int) func() {
			y, x := flat(o.dst(n)), flat(o.src(n))
			return func() { kernel.Map(f, unaryConstants[f], y, x, 0, n) }
		}})
		if f == kernel.UnaryShift { // hands its gradient on
			continue
		}
		for _, to := range []bool{false, true} {
			all = append(all, rowKernel{name + []string{" backward", " backward added"}[bits(to)], 12 + 4*bits(to), func(o *operands, n int) func() {
				dx, g, r := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n))
				return func() { kernel.MapBackward(f, unaryConstants[f], dx, to, g, r, 0, n) }
			}})
		}
	}
	return all
}

// swigluKernels has each gradient alone, both, and each form of adding.
func swigluKernels() []rowKernel {
	all := []rowKernel{{"swiglu", 12, func(o *operands, n int) func() {
		y, gate, up := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n))
		return func() { kernel.SwiGLU(y, gate, up, 0, n) }
	}}}
	for form := range 9 {
		toGate, toUp := form%3, form/3 // 0 not wanted, 1 filled, 2 added to
		if form > 0 {
			all = append(all, rowKernel{fmt.Sprint("swiglu backward ", toGate, toUp), 12 + 4*(toGate+toUp), func(o *operands, n int) func() {
				var dgate, dup kernel.SwiGLUGrad[float32]
				if toGate > 0 {
					dgate = kernel.SwiGLUGrad[float32]{Dst: flat(o.dst(n)), Add: toGate > 1}
				}
				if toUp > 0 {
					dup = kernel.SwiGLUGrad[float32]{Dst: flat(o.dst(n)), Add: toUp > 1}
				}
				g, gate, up := flat(o.src(n)), flat(o.src(n)), flat(o.src(n))
				return func() { kernel.SwiGLUBackward(dgate, dup, g, gate, up, 0, n) }
			}})
		}
	}
	return all
}

// gateKernels gives masks as numbers, which the test compares too.
func gateKernels() []rowKernel {
	var all []rowKernel
	for _, k := range []struct {
		name     string
		forward  func(y, x []float32, mask []uint8)
		backward func(dst []float32, add bool, g []float32, mask []uint8)
	}{
		{"relu", kernel.ReLU[float32], kernel.ReLUBackward[float32]},
		{"leaky relu", func(y, x []float32, mask []uint8) { kernel.LeakyReLU(y, x, 0.1, mask) },
			func(dst []float32, add bool, g []float32, mask []uint8) {
				kernel.LeakyReLUBackward(dst, add, g, 0.1, mask)
			}},
		{"clamp", func(y, x []float32, mask []uint8) { kernel.Clamp(y, x, -0.5, 0.5, mask) }, kernel.ReLUBackward[float32]},
	} {
		all = append(all, rowKernel{k.name, 8, func(o *operands, n int) func() {
			y, x, mask := o.dst(n), o.src(n), make([]uint8, kernel.MaskBytes(n))
			return func() {
				k.forward(y, x, mask)
				if n <= 70 {
					for _, b := range mask {
						o.number(float64(b))
					}
				}
			}
		}}, rowKernel{k.name + " alone", 8, func(o *operands, n int) func() {
			y, x := o.dst(n), o.src(n)
			return func() { k.forward(y, x, nil) }
		}})
		for _, to := range []bool{false, true} {
			all = append(all, rowKernel{k.name + []string{" backward", " backward added"}[bits(to)], 8 + 4*bits(to), func(o *operands, n int) func() {
				dst, g, mask := o.dst(n), o.src(n), make([]uint8, kernel.MaskBytes(n))
				for i := range mask {
					mask[i] = uint8(o.r.Uint32())
				}
				return func() { k.backward(dst, to, g, mask) }
			}})
		}
	}
	return all
}

// softmaxKernels are one row each.
func softmaxKernels() []rowKernel {
	var all []rowKernel
	row := func(n int) kernel.Lines { return kernel.Lines{Outer: 1, N: n, Inner: 1} }
	for _, k := range []struct {
		name     string
		forward  kerneltest.LinesFunc[float32]
		backward kerneltest.LinesBackwardFunc[float32]
	}{
		{"softmax", kernel.Softmax[float32], kernel.SoftmaxBackward[float32]},
		{"log-softmax", kernel.LogSoftmax[float32], kernel.LogSoftmaxBackward[float32]},
	} {
		all = append(all, rowKernel{k.name, 8, func(o *operands, n int) func() {
			y, x := o.dst(n), o.src(n)
			return func() { k.forward(row(n), y, x, 0) }
		}})
		for _, to := range []bool{false, true} {
			all = append(all, rowKernel{k.name + []string{" backward", " backward added"}[bits(to)], 12 + 4*bits(to), func(o *operands, n int) func() {
				dx, g, y := o.dst(n), o.src(n), o.src(n)
				return func() { k.backward(row(n), dx, to, g, y, 0) }
			}})
		}
	}
	all = append(all, softmaxDownKernels()...)
	options := &kernel.CrossEntropyOptions[float32]{Ignore: -100}
	all = append(all, rowKernel{"cross-entropy", 4, func(o *operands, n int) func() {
		x, loss, part := o.src(n), o.dst(min(n, 1)), make([]float64, kernel.CrossEntropyPart)
		return func() { kernel.CrossEntropy(part, loss, nil, x, make([]int64, min(n, 1)), n, options) }
	}})
	for _, to := range []bool{false, true} {
		all = append(all, rowKernel{"cross-entropy backward" + []string{"", " added"}[bits(to)], 8 + 4*bits(to), func(o *operands, n int) func() {
			dx, x, lse, targets := o.dst(n), o.src(n), make([]float32, min(n, 1)), make([]int64, min(n, 1))
			kernel.CrossEntropy(make([]float64, kernel.CrossEntropyPart), nil, lse, x, targets, n, options)
			return func() { kernel.CrossEntropyBackward(dx, to, nil, 1, x, lse, targets, n, options) }
		}})
	}
	return all
}

// softmaxDownKernels are n lines of three elements, side by side.
func softmaxDownKernels() []rowKernel {
	var all []rowKernel
	lines := func(n int) kernel.Lines { return kernel.Lines{Outer: 1, N: 3, Inner: n} }
	each := func(n int, f func(c int)) {
		for c := range lines(n).Chunks() {
			f(c)
		}
	}
	for _, k := range []struct {
		name     string
		forward  kerneltest.LinesFunc[float32]
		backward kerneltest.LinesBackwardFunc[float32]
	}{
		{"softmax down", kernel.Softmax[float32], kernel.SoftmaxBackward[float32]},
		{"log-softmax down", kernel.LogSoftmax[float32], kernel.LogSoftmaxBackward[float32]},
	} {
		all = append(all, rowKernel{k.name, 24, func(o *operands, n int) func() {
			y, x := o.dst(3*n), o.src(3*n)
			return func() { each(n, func(c int) { k.forward(lines(n), y, x, c) }) }
		}})
		for _, to := range []bool{false, true} {
			all = append(all, rowKernel{k.name + []string{" backward", " backward added"}[bits(to)], 36 + 12*bits(to), func(o *operands, n int) func() {
				dx, g, y := o.dst(3*n), o.src(3*n), o.src(3*n)
				return func() { each(n, func(c int) { k.backward(lines(n), dx, to, g, y, c) }) }
			}})
		}
	}
	return all
}

// conversionKernels hold halves and float64 in the memory of float32, so that they end where that does.
func conversionKernels() []rowKernel {
	half := func(x []float32, n int) []uint16 {
		return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), n)
	}
	wide := func(x []float32, n int) kernel.Strided[float64] {
		return kernel.Contiguous(unsafe.Slice((*float64)(unsafe.Pointer(unsafe.SliceData(x))), n), []int{n})
	}
	var all []rowKernel
	for _, k := range []struct {
		name  string
		widen func(dst []float32, src []uint16)
		round func(dst []uint16, src []float32)
	}{{"f16", kernel.F16ToF32, kernel.F32ToF16}, {"bf16", kernel.BF16ToF32, kernel.F32ToBF16}} {
		all = append(all, rowKernel{k.name + " to f32", 6, func(o *operands, n int) func() {
			y, x := o.dst(n), half(o.src((n+1)/2), n)
			return func() { k.widen(y, x) }
		}}, rowKernel{"f32 to " + k.name, 6, func(o *operands, n int) func() {
			h, x := half(o.dst((n+1)/2), n), o.src(n)
			return func() { k.round(h, x) }
		}})
	}
	for _, to := range []bool{false, true} {
		form := []string{"", " added"}[bits(to)]
		all = append(all, rowKernel{"f32 to f64" + form, 12 + 8*bits(to), func(o *operands, n int) func() {
			y, x := wide(o.dst(2*n), n), flat(o.src(n))
			return func() { kernel.Convert(y, to, x, 0, n) }
		}}, rowKernel{"f64 to f32" + form, 12 + 4*bits(to), func(o *operands, n int) func() {
			y, x := flat(o.dst(n)), wide(o.src(2*n), n)
			return func() { kernel.Convert(y, to, x, 0, n) }
		}})
	}
	return all
}

// An element's value depends on nothing but the element: not on the length of the row, nor on where it begins.
func TestActivationsAreElementwise(t *testing.T) {
	const n = 37
	functions := map[string]func(y, x []float32){"gelu": kernel.GELU[float32], "gelu tanh": kernel.GELUTanh[float32]}
	for f, name := range unaryNames {
		functions[name] = mapOf(f)
	}
	eachFamily(t, func(t *testing.T) {
		for name, f := range functions {
			x := kerneltest.Specials(kerneltest.Rand[float32](n, 1), 1)
			whole, one := make([]float32, n), make([]float32, 1)
			f(whole, x)
			for lo := range n {
				for hi := lo + 1; hi <= min(n, lo+17); hi++ {
					part := make([]float32, hi-lo)
					f(part, x[lo:hi])
					kerneltest.SameBits(t, whole[lo:hi], part, name)
				}
				f(one, x[lo:lo+1])
				kerneltest.SameBits(t, whole[lo:lo+1], one, name)
			}
		}
	})
}
