package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/thimble-ml/thimble/internal/kernel"
)

// rowKernel is one use of a row kernel, for the tests that compare families and for the benchmark.
type rowKernel struct {
	name  string
	bytes int // read and written, an element
	start func(o *operands, n int) (run func())
}

// operands makes what a kernel works on, and keeps what it writes.
type operands struct {
	r       *rand.Rand
	special int // one in so many elements is NaN, infinite, a zero or tiny; 0 for none
	alloc   func(n int) []float32
	written [][]float32
	numbers []float64
}

// src gives n normal values.
func (o *operands) src(n int) []float32 {
	x := o.alloc(n)
	for i := range x {
		x[i] = float32(o.r.NormFloat64())
		if o.special > 0 && o.r.IntN(o.special) == 0 {
			x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0, float32(math.Copysign(0, -1)), 1e-42}[o.r.IntN(6)]
		}
	}
	return x
}

// positive gives n values of 0 and more, or NaN.
func (o *operands) positive(n int) []float32 {
	x := o.src(n)
	for i, v := range x {
		x[i] = v * v
	}
	return x
}

// dst gives n normal values that the kernel writes or adds to.
func (o *operands) dst(n int) []float32 {
	x := o.src(n)
	o.written = append(o.written, x)
	return x
}

// truths gives n truth values.
func (o *operands) truths(n int) []bool {
	x := make([]bool, n)
	for i := range x {
		x[i] = o.r.IntN(2) == 0
	}
	return x
}

// state is dst that is not negative.
func (o *operands) state(n int) []float32 {
	x := o.positive(n)
	o.written = append(o.written, x)
	return x
}

// number keeps a result that is not an operand.
func (o *operands) number(v float64) { o.numbers = append(o.numbers, v) }

// result is all that was written.
func (o *operands) result() (all []float64) {
	for _, x := range o.written {
		for _, v := range x {
			all = append(all, float64(v))
		}
	}
	return append(all, o.numbers...)
}

func flat(x []float32) kernel.Strided[float32] { return kernel.Contiguous(x, []int{len(x)}) }

// rowKernels are the kernels that go along rows, or down columns, in their versions.
func rowKernels() []rowKernel {
	all := arithmeticKernels()
	all = append(all, optimKernels()...)
	all = append(all, reduceKernels()...)
	all = append(all, activationKernels()...)
	all = append(all, normKernels()...)
	return append(all, inPlaceKernels()...)
}

// inPlaceKernels write over what they read.
func inPlaceKernels() []rowKernel {
	var all []rowKernel
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name + " in place", bytes, start})
	}
	add("sub", 12, func(o *operands, n int) func() {
		d, x := flat(o.dst(n)), flat(o.src(n))
		return func() { kernel.Zip(kernel.BinarySub, d, x, d, 0, n) }
	})
	add("dropout", 8, func(o *operands, n int) func() {
		d := o.dst(n)
		return func() { kernel.Dropout(d, false, d, 0.2, kernel.Words{Seed: 1}) }
	})
	add("RoPE", 16, func(o *operands, n int) func() {
		p := kernel.RoPE{Batch: 1, Steps: 1, Heads: 1, Dim: 2 * n, Offset: 3, Base: 100}
		d, scratch := kernel.Rank4[float32]{Data: o.dst(2 * n), Strides: [4]int{0, 0, 0, 1}}, make([]byte, p.Scratch(4))
		return func() {
			for c := range p.Chunks() {
				kernel.Rotate(&p, d, false, d, scratch, c)
			}
		}
	})
	add("layer norm", 8, func(o *operands, n int) func() {
		y, w := o.dst(n), o.src(n)
		return func() { kernel.LayerNorm(y, nil, y, w, w, max(1, n), 1e-5) }
	})
	add("layer norm backward", 12, func(o *operands, n int) func() {
		dx, x, w := o.dst(n), o.src(n), o.src(n)
		return func() { kernel.LayerNormBackward(dx, false, dx, x, w, []float32{0.2, 1.3}, max(1, n)) }
	})
	return all
}

func arithmeticKernels() []rowKernel {
	var all []rowKernel
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name, bytes, start})
	}
	add("add", 12, func(o *operands, n int) func() {
		d, x, y := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n))
		return func() { kernel.Add(d, x, y, 0, n) }
	})
	add("copy", 8, func(o *operands, n int) func() {
		d, x := flat(o.dst(n)), flat(o.src(n))
		return func() { kernel.Copy(d, x, 0, n) }
	})
	add("accumulate", 12, func(o *operands, n int) func() {
		d, x := flat(o.dst(n)), flat(o.src(n))
		return func() { kernel.Accumulate(d, x, 0, n) }
	})
	add("add scalar", 8, func(o *operands, n int) func() {
		d, x := flat(o.dst(n)), flat(o.src(n))
		k := kernel.Strided[float32]{Data: o.src(1), Shape: d.Shape, Strides: []int{0}}
		return func() { kernel.Add(d, x, k, 0, n) }
	})
	for f, name := range []string{"sub", "mul", "div", "maximum", "minimum"} {
		add(name, 12, func(o *operands, n int) func() {
			d, x, y := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n))
			return func() { kernel.Zip(kernel.Binary(f), d, x, y, 0, n) }
		})
	}
	for _, to := range []bool{false, true} {
		form := []string{"", " added"}[bits(to)]
		for f, name := range []string{"", "mul", "div", "maximum", "minimum"} {
			for _, second := range []bool{false, true} {
				if f > 0 && (!second || f > 1) {
					add(fmt.Sprint(name, " backward", 1+bits(second), form), 16+4*bits(to), func(o *operands, n int) func() {
						d, g, x, y := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n)), flat(o.src(n))
						return func() { kernel.ZipBackward(kernel.Binary(f), second, d, to, g, x, y, 0, n) }
					})
				}
			}
		}
		add("dropout"+form, 8+4*bits(to), func(o *operands, n int) func() {
			d, x, words := o.dst(n), o.src(n), kernel.Words{Seed: 1 << 33, Stream: 5, Offset: o.r.Uint64N(4) + 1<<34 - 20}
			return func() { kernel.Dropout(d, to, x, 0.2, words) }
		})
		add("RoPE"+form, 16+8*bits(to), func(o *operands, n int) func() {
			p := kernel.RoPE{Batch: 1, Steps: 1, Heads: 1, Dim: 2 * n, Offset: 3, Base: 100}
			d, x, scratch := kernel.Rank4[float32]{Data: o.dst(2 * n)}, kernel.Rank4[float32]{Data: o.src(2 * n)}, make([]byte, p.Scratch(4))
			d.Strides[3], x.Strides[3] = 1, 1
			return func() {
				for c := range p.Chunks() {
					kernel.Rotate(&p, d, to, x, scratch, c)
				}
			}
		})
		add("scale"+form, 8+4*bits(to), func(o *operands, n int) func() {
			d, x := flat(o.dst(n)), flat(o.src(n))
			return func() { kernel.Scale(d, x, -0.3, to, 0, n) }
		})
		add("keep"+form, 9+4*bits(to), func(o *operands, n int) func() {
			d, x, c := flat(o.dst(n)), flat(o.src(n)), kernel.Contiguous(o.truths(n), []int{n})
			return func() { kernel.Keep(d, to, x, c, to, 0, n) }
		})
	}
	add("where", 13, func(o *operands, n int) func() {
		d, x, y, c := flat(o.dst(n)), flat(o.src(n)), flat(o.src(n)), kernel.Contiguous(o.truths(n), []int{n})
		return func() { kernel.Where(d, c, x, y, 0, n) }
	})
	for f, name := range []string{"equal", "not equal", "less", "less or equal"} {
		add(name, 9, func(o *operands, n int) func() {
			x, y, c := o.src(n), o.src(n), o.truths(n)
			copy(x[n/2:], y[n/2:])
			d := kernel.Contiguous(c, []int{n})
			return func() {
				kernel.Compare(kernel.Comparison(f), d, flat(x), flat(y), 0, n)
				for _, v := range c[:min(n, 100)] {
					o.number(float64(bits(v)))
				}
			}
		})
	}
	add("clip", 8, func(o *operands, n int) func() {
		x := o.dst(n)
		return func() { kernel.ClipTo(x, 0.5) }
	})
	return all
}

func bits(b bool) int {
	if b {
		return 1
	}
	return 0
}

func optimKernels() []rowKernel {
	var all []rowKernel
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name, bytes, start})
	}
	h := kernel.Adam{LR: 1e-2, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, WeightDecay: 0.1, Correct1: 0.1, Correct2: 0.01, GradScale: 0.5}
	for _, l2 := range []bool{false, true} {
		h := h
		h.L2, h.Maximize = l2, l2
		name := []string{"adamw", "adam"}[bits(l2)]
		add(name, 28, func(o *operands, n int) func() {
			p, g, m, v := o.dst(n), o.src(n), o.dst(n), o.state(n)
			return func() { kernel.AdamStep(&h, p, g, m, v, nil) }
		})
		add(name+" amsgrad", 36, func(o *operands, n int) func() {
			p, g, m, v, top := o.dst(n), o.src(n), o.dst(n), o.state(n), o.state(n)
			return func() { kernel.AdamStep(&h, p, g, m, v, top) }
		})
	}
	for _, decay := range []float64{0, 0.1} {
		named := func(name string) string { return name + []string{"", " decay"}[bits(decay > 0)] }
		sgd := kernel.SGD{LR: 0.1, GradScale: 0.5, WeightDecay: decay}
		add(named("sgd"), 12, func(o *operands, n int) func() {
			p, g := o.dst(n), o.src(n)
			return func() { kernel.SGDStep(&sgd, p, g, nil) }
		})
		for _, nesterov := range []bool{false, true} {
			h := kernel.SGD{LR: 0.1, GradScale: 0.5, WeightDecay: decay, Momentum: 0.9, Dampening: 0.2, Nesterov: nesterov, Maximize: nesterov}
			add(named([]string{"sgd momentum", "sgd nesterov"}[bits(nesterov)]), 20, func(o *operands, n int) func() {
				p, g, buf := o.dst(n), o.src(n), o.dst(n)
				return func() { kernel.SGDStep(&h, p, g, buf) }
			})
		}
		rms := kernel.RMSprop{LR: 1e-2, Alpha: 0.9, Eps: 1e-4, GradScale: 0.5, WeightDecay: decay, Momentum: 0.7}
		add(named("rmsprop"), 20, func(o *operands, n int) func() {
			p, g, v := o.dst(n), o.src(n), o.state(n)
			return func() { kernel.RMSpropStep(&rms, p, g, v, nil, nil) }
		})
		add(named("rmsprop centered momentum"), 36, func(o *operands, n int) func() {
			p, g, v, avg, buf := o.dst(n), o.src(n), o.state(n), o.dst(n), o.dst(n)
			for i := range v {
				v[i] += avg[i] * avg[i] // no root of less than 0
			}
			return func() { kernel.RMSpropStep(&rms, p, g, v, avg, buf) }
		})
		ada := kernel.Adagrad{Rate: 0.1, Eps: 1e-6, GradScale: 0.5, WeightDecay: decay}
		add(named("adagrad"), 20, func(o *operands, n int) func() {
			p, g, sum := o.dst(n), o.src(n), o.state(n)
			return func() { kernel.AdagradStep(&ada, p, g, sum) }
		})
	}
	lion := kernel.Lion{LR: 1e-2, Beta1: 0.875, Beta2: 0.96875, GradScale: 1, WeightDecay: 0.1}
	add("lion", 20, func(o *operands, n int) func() {
		p, g, m := o.dst(n), o.src(n), o.dst(n)
		return func() { kernel.LionStep(&lion, p, g, m) }
	})
	return all
}

func reduceKernels() []rowKernel {
	var all []rowKernel
	for op, name := range []string{"sum", "", "norm 1", "norm 2", "max", "min", "norm inf"} {
		if name != "" {
			all = append(all, rowKernel{name + " of a row", 4, func(o *operands, n int) func() {
				x, d, stat := o.src(n), o.dst(1), []float32(nil)
				if n == 0 && op >= int(kernel.ReduceMax) {
					return func() {}
				}
				p := kernel.NewReduce(kernel.Reduction(op), []int{1, n}, []int{1, 1}, 0)
				shared := make([]float64, p.SharedBytes()/8)
				return func() {
					for c := range p.Chunks() {
						kernel.ReducePart(&p, d, stat, x, shared, c)
					}
					kernel.ReduceFinish(&p, d, stat, shared)
				}
			}})
		}
	}
	all = append(all, rowKernel{"sum of squares", 4, func(o *operands, n int) func() {
		x := o.src(n)
		return func() { o.number(kernel.SumSquares(x)) }
	}}, rowKernel{"finite", 4, func(o *operands, n int) func() {
		x := o.src(n)
		return func() { o.number(float64(kernel.FirstNonFinite(x))) }
	}})
	for _, op := range []kernel.Reduction{kernel.ReduceNorm2, kernel.ReduceMax, kernel.ReduceMin, kernel.ReduceVar} {
		const rows = 5
		all = append(all, rowKernel{fmt.Sprint("reduction ", op, " of 5 rows"), 4 * rows, func(o *operands, n int) func() {
			x, d := o.src(rows*n), o.dst(n)
			p := kernel.NewReduce(op, []int{rows, n}, []int{1, n}, 1)
			shared := make([]float64, p.SharedBytes()/8)
			return func() {
				for c := range p.Chunks() {
					kernel.ReducePart(&p, d, []float32(nil), x, shared, c)
				}
				kernel.ReduceFinish(&p, d, []float32(nil), shared)
			}
		}})
	}
	for _, rows := range []int{1, 4, 7, 64} {
		all = append(all, rowKernel{fmt.Sprint("sum of ", rows, " rows"), 4 * rows, func(o *operands, n int) func() {
			x, d := o.src(rows*n), flat(o.dst(n))
			p := kernel.NewSumTo([]int{rows, n}, []int{n})
			shared := make([]float64, p.SharedBytes()/8)
			return func() {
				for c := range p.Chunks() {
					kernel.SumPart(&p, d, true, x, shared, c)
				}
				kernel.SumFinish(&p, d, true, shared)
			}
		}})
	}
	return all
}

func normKernels() []rowKernel {
	var all []rowKernel
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name, bytes, start})
	}
	for k, with := range []string{"", " w", " b", " w b"} {
		operand := func(o *operands, n, bit int) []float32 {
			if k&bit == 0 {
				return nil
			}
			return o.src(n)
		}
		add("layer norm"+with, 8, func(o *operands, n int) func() {
			x, y, stats, w, b := o.src(n), o.dst(n), o.dst(2), operand(o, n, 1), operand(o, n, 2)
			return func() { kernel.LayerNorm(y, stats, x, w, b, max(1, n), 1e-5) }
		})
		if k > 1 {
			continue
		}
		add("RMS norm"+with, 8, func(o *operands, n int) func() {
			x, y, rstd, w := o.src(n), o.dst(n), o.dst(1), operand(o, n, 1)
			return func() { kernel.RMSNorm(y, rstd, x, w, max(1, n), 1e-5) }
		})
		for _, to := range []bool{false, true} {
			form := with + []string{"", " added"}[bits(to)]
			add("layer norm backward"+form, 12+4*bits(to), func(o *operands, n int) func() {
				g, x, dx, w := o.src(n), o.src(n), o.dst(n), operand(o, n, 1)
				return func() { kernel.LayerNormBackward(dx, to, g, x, w, []float32{0.2, 1.3}, max(1, n)) }
			})
			add("RMS norm backward"+form, 12+4*bits(to), func(o *operands, n int) func() {
				g, x, dx, w := o.src(n), o.src(n), o.dst(n), operand(o, n, 1)
				return func() { kernel.RMSNormBackward(dx, to, g, x, w, []float32{1.3}, max(1, n)) }
			})
		}
	}
	for _, rows := range []int{1, 3, 64} {
		add(fmt.Sprint("layer norm affine of ", rows, " rows"), 8*rows, func(o *operands, n int) func() {
			g, x, dw, db, stats := o.src(rows*n), o.src(rows*n), o.dst(n), o.dst(n), o.src(2*rows)
			p := kernel.NewLayerNormAffine(rows, n)
			shared := make([]float64, p.SharedBytes()/8)
			return func() {
				for c := range p.Chunks() {
					kernel.LayerNormAffinePart(p, g, x, stats, shared, c)
				}
				kernel.LayerNormAffineFinish(p, dw, false, db, true, shared)
			}
		})
		add(fmt.Sprint("RMS norm weight of ", rows, " rows"), 8*rows, func(o *operands, n int) func() {
			g, x, dw, rstd := o.src(rows*n), o.src(rows*n), o.dst(n), o.src(rows)
			p := kernel.NewRMSNormWeight(rows, n)
			shared := make([]float64, p.SharedBytes()/8)
			return func() {
				for c := range p.Chunks() {
					kernel.RMSNormWeightPart(p, g, x, rstd, shared, c)
				}
				kernel.RMSNormWeightFinish(p, dw, false, shared)
			}
		})
	}
	return append(all, channelKernels()...)
}

// channelKernels are group norm, and batch norm of one channel, of one image.
func channelKernels() []rowKernel {
	var all []rowKernel
	add := func(name string, bytes int, start func(o *operands, n int) func()) {
		all = append(all, rowKernel{name, bytes, start})
	}
	add("group norm", 8, func(o *operands, n int) func() {
		x, y, stats, w, b := o.src(n), o.dst(n), o.dst(2), o.src(1), o.src(1)
		k := kernel.NewGroupNorm(1, 1, n, 1)
		return func() {
			if n > 0 {
				kernel.GroupNormForward(&k, y, stats, x, w, b, 1e-5, 0)
			}
		}
	})
	for _, to := range []bool{false, true} {
		add("batch norm of 5 rows"+[]string{"", " added"}[bits(to)], 5*24, func(o *operands, n int) func() {
			k := kernel.NewBatchNorm(5, n, 1)
			x, y, dx, w, b := o.src(5*n), o.dst(5*n), o.dst(5*n), o.src(n), o.src(n)
			if to {
				b = nil
			}
			stats, mean, variance, parts, factors := o.dst(2*n), o.dst(n), o.dst(n), make([]float64, k.Parts()), make([]float32, 3*n)
			return func() {
				for c := range k.Chunks() {
					kernel.BatchNormPart(&k, x, parts, c)
				}
				kernel.BatchNormFinish(&k, stats, mean, variance, parts, 1e-5)
				for c := range k.RowChunks() {
					kernel.BatchNormApply(&k, y, x, stats, w, b, c)
				}
				for c := range k.Chunks() {
					kernel.ChannelSumsPart(&k, y, x, stats, parts, c)
				}
				kernel.BatchNormFactors(&k, factors, stats, w, kernel.ChannelSumsFinish(&k, parts))
				for c := range k.RowChunks() {
					kernel.BatchNormBackward(&k, dx, to, y, x, stats, factors, c)
				}
			}
		})
		add("batch norm backward"+[]string{"", " added"}[bits(to)], 12+4*bits(to), func(o *operands, n int) func() {
			g, x, dx, stats, w := o.src(n), o.src(n), o.dst(n), o.src(2), o.src(1)
			k, factors := kernel.NewBatchNorm(1, 1, n), make([]float32, 3)
			parts := make([]float64, k.Parts())
			return func() {
				for c := range k.Chunks() {
					kernel.ChannelSumsPart(&k, g, x, stats, parts, c)
				}
				kernel.BatchNormFactors(&k, factors, stats, w, kernel.ChannelSumsFinish(&k, parts))
				for c := range k.RowChunks() {
					kernel.BatchNormBackward(&k, dx, to, g, x, stats, factors, c)
				}
			}
		})
	}
	return all
}

// All families agree on every length up to 70, wherever slices begin, on NaN and infinities too, and write nothing beside
// their slices.
func TestRowFamilies(t *testing.T) {
	for _, k := range rowKernels() {
		t.Run(k.name, func(t *testing.T) {
			for n := range 71 {
				for offset := range 8 {
					compareRows(t, k, n, offset, [...]int{0, 0, 20, 4}[offset%4])
				}
			}
		})
	}
}

func FuzzRowFamilies(f *testing.F) {
	f.Add(uint(3), uint(100), uint(3), uint(10))
	f.Fuzz(func(t *testing.T, kernel, n, offset, special uint) {
		all := rowKernels()
		compareRows(t, all[kernel%uint(len(all))], int(n%5000), int(offset%16), int(special%100))
	})
}

const guard = 0x1.2345p20

func compareRows(t *testing.T, k rowKernel, n, offset, special int) {
	t.Helper()
	var want []float64
	for _, f := range kernel.Families() {
		kernel.UseFamily(t, f)
		var all [][]float32
		o := &operands{r: rand.New(rand.NewPCG(uint64(n), uint64(offset))), special: special, alloc: func(n int) []float32 {
			x := make([]float32, 8+offset+n+16)
			for i := range x {
				x[i] = guard
			}
			all = append(all, x)
			return x[8+offset:][:n:n]
		}}
		k.start(o, n)()
		for _, x := range all {
			for i, v := range x {
				if v != guard && (i < 8+offset || i >= len(x)-16) {
					require.Failf(t, "written beside a slice", "%s: %d elements at %d: number %d is %v", f, n, offset, i-8-offset, v)
				}
			}
		}
		got := o.result()
		if want == nil {
			want = got
			continue
		}
		require.Len(t, got, len(want))
		for i, w := range want {
			if d := math.Abs(got[i] - w); got[i] != w && !(d <= 1e-5*(1+math.Abs(w))) && !(w != w && got[i] != got[i]) {
				require.Failf(t, "families differ", "%s: %d elements at %d: number %d is %v, plain Go %v", f, n, offset, i, got[i], w)
			}
		}
	}
}

// What is too large for caches is written past them, to the same numbers, wherever it begins and ends.
func TestRowStreams(t *testing.T) {
	const n = 4<<20 + 77
	shape := []int{n}
	x, y, d := make([]float32, n), make([]float32, n), make([]float32, n+8)
	for i := range x {
		x[i], y[i] = float32(i), float32(i%7)
	}
	for offset := range 3 {
		to := kernel.Contiguous(d[3*offset:], shape)
		for c := range kernel.Chunks(n) {
			lo, hi := kernel.Range(n, c)
			kernel.Add(to, kernel.Contiguous(x, shape), kernel.Contiguous(y, shape), lo, hi)
		}
		for i, v := range to.Data[:n] {
			if v != x[i]+y[i] {
				t.Fatalf("element %d of the sum is %v", i, v)
			}
		}
		kernel.Copy(to, kernel.Contiguous(x, shape), 0, n)
		for i, v := range to.Data[:n] {
			if v != x[i] {
				t.Fatalf("element %d of the copy is %v", i, v)
			}
		}
		kernel.Add(to, to, kernel.Contiguous(y, shape), 1, n-1) // in place
		require.Equal(t, []float32{x[0], x[1] + y[1], x[n-2] + y[n-2], x[n-1]}, []float32{to.Data[0], to.Data[1], to.Data[n-2], to.Data[n-1]})
	}
}
