package autograd

import (
	"math"

	"github.com/thimble-ml/thimble/tensor"
)

// An Op is one node of the graph: its rule, its shapes, and its kernels forward and backward.
//
// An op never allocates. Infer says what it wants; the engine takes it from the session's device, so that a dry run,
// which calls Rule and Infer but no kernel, walks through exactly the same allocations.
// An Op is immutable after it was given to Apply: backward uses the same one.
type Op interface {
	// Rule is static: the same for every call with an op of the same configuration.
	Rule() *Rule
	// Infer checks the inputs and fills sh, which comes zeroed. The error says what was wanted; the engine adds the
	// op, the scope and all specs.
	Infer(in []tensor.Spec, sh *Shapes) error
	// Forward fills every element of f.Out from f.In.
	Forward(f *Fwd)
	// Backward fills, or adds to, the gradient of each input for which b.Into gives a destination.
	Backward(b *Bwd)
}

// A Viewer is an op whose outputs are views of input 0: no bytes are allocated and no kernel runs. Gradients of the
// outputs are written straight into the same views of input 0's one gradient buffer, so View must depend on nothing
// but x's spec and strides. Forward and Backward of a Viewer are never called.
//
// A view that repeats elements cannot have its gradient there. Its rule says Pass: then the gradient has a buffer of its
// own, of the output's shape, which the engine sums to the input's.
type Viewer interface {
	Op
	View(x *tensor.Tensor, output int) tensor.Tensor
}

// A Reshaper is a Viewer with one output, which holds x's elements in x's order. Fits tells whether x's strides allow
// such a view; it must of a contiguous x. If they do not, the output is a view of a contiguous copy, and where those of
// input 0's gradient do not, the output's gradient has a buffer of its own.
type Reshaper interface {
	Viewer
	Fits(x *tensor.Tensor) bool
}

// A Joiner is an op whose inputs lie side by side in its one output. Part is the view of y, the output or its gradient,
// where input i lies, in being the specs of all inputs. That part of the gradient is what the engine hands on to input i:
// shared, if it is contiguous and nothing is there yet. Backward of a Joiner is never called.
type Joiner interface {
	Op
	Part(y *tensor.Tensor, in []tensor.Spec, i int) tensor.Tensor
}

// A Taker is an op whose kernels work on tensors with some strides but not with all. Takes tells of a t that is not
// contiguous whether they read it as input i, and write it as the gradient of input i, where it lies; in is the specs of
// all inputs. Of others the engine makes contiguous copies, as it does for every op that is neither a Taker nor Strided.
type Taker interface {
	Op
	Takes(in []tensor.Spec, i int, t *tensor.Tensor) bool
}

// A Rower is an op that works row by row: the last dims dimensions of input 0 make a row, and a row of a visible output, of
// input 0's shape, depends on the same row of input 0 and of what has its shape, and on inputs of other shapes as a whole.
// Hidden outputs hold equally many elements for each row. The engine may then call Forward and Backward for a few rows at a
// time, as if there were no others: of an op with half types it does (see doc.go, R10). ok false: this one does not.
//
// The gradient of an input that all rows share is a sum over the rows: of each tile's, in their order.
type Rower interface {
	Op
	Row(in []tensor.Spec) (dims int, ok bool)
}

// Ref names an input or an output of an op in Rule.Reads.
type Ref int

// In refers to input i.
func In(i int) Ref { return Ref(i) }

// Out refers to output i, hidden ones counted.
func Out(i int) Ref { return ^Ref(i) }

// OutGrad, in Rule.Over, refers to the gradient of output 0.
const OutGrad Ref = math.MaxInt

// Rule is what the engine must know of an op: data, not code.
type Rule struct {
	// Name is torch's name for the op, as it appears in errors, events and docs/saved.md.
	Name string
	// Reads[i] lists what the gradient of input i reads. The engine saves it if input i requires a gradient, and
	// nothing else. Inputs beyond the slice read nothing.
	Reads [][]Ref
	// Over[i] lists what the gradient of input i may be written over, if nobody else holds it by then: OutGrad, or what
	// Reads[i] names. In and Grad then give Backward the same memory as Into, so it must have read an element for the
	// last time, for the other gradients too, before it writes it. A hidden output listed here is that gradient, computed
	// in Forward but for a factor: it is counted as a gradient.
	Over [][]Ref
	// Pass[i] says that the gradient of input i is output 0's gradient as it is (summed where the input was broadcast or
	// expanded). The engine hands it on without a kernel.
	Pass []bool
	// Broadcast: every input is broadcast to output 0's shape. Forward sees inputs as views with stride 0 in the
	// repeated dimensions; Backward writes gradients of output 0's shape, which the engine sums to the input's.
	Broadcast bool
	// Strided: the kernels take inputs with any strides and write gradients to destinations with any strides. For other
	// ops, but for what a Taker takes, the engine makes contiguous copies, counted as Temporary.
	Strided bool
	// InPlace: output 0 lies over input 0, whose buffer the op takes over. Forward sees the same tensor as In[0] and
	// Out[0].
	InPlace bool
	// Random: the op draws Shapes.Draws counters from the scope's random stream; Backward sees the same ones.
	Random bool
	// Dear: the outputs cost so much to compute again, for their bytes, that selective recomputation keeps them (matrix
	// products, attention, convolution).
	Dear bool
	// Each: the op works element by element: all inputs have the shape of the output, or are broadcast to it, and element i
	// of the output, and bit i of a hidden one of Uint8, depends on element i of each and on word i of the random ones.
	// What Rower says of rows then holds of elements.
	Each bool
	// Halves: the kernels take Float16 and BFloat16 as they are stored. Those of other ops compute in float32, and the
	// engine widens what they read and rounds what they write, once (see doc.go, R10). Under autocast a CastLow op then
	// sees parameters in Float32 beside halves: it must read them as if they were rounded to the half type, which its
	// result has, and write their gradients in Float32.
	Halves bool
	// Cast is what autocast makes of the op.
	Cast CastClass
	// MultiView: a Viewer with several outputs, on which in-place operations are refused.
	MultiView bool
}

// Shapes is what Infer decides.
type Shapes struct {
	// Out are the specs of all outputs, filled with Add or Like. The last Hidden of them (row statistics,
	// log-sum-exp, bit masks) are for Backward and not the user's; where no gradient is recorded they are not made and
	// Forward sees empty tensors for them. A visible output that is not of floating point has no gradient, and an op that
	// has no other is not recorded.
	Out    []tensor.Spec
	Hidden int

	// Scratch bytes are for each lane, Shared bytes for the whole call; Bwd* the same for Backward. Lanes in use are
	// at most min(session's Lanes, Chunks). Chunks is the largest count that the op passes to Par (0 counts as 1).
	// All of it depends on nothing but specs and the op's configuration.
	Scratch, Shared       int64
	BwdScratch, BwdShared int64
	Chunks, BwdChunks     int

	// Draws is how many 32-bit words of the random stream the op uses.
	Draws uint64

	dims []int // room that Add cuts shapes from
}

// Add appends an output.
func (sh *Shapes) Add(dt tensor.DType, shape ...int) {
	if cap(sh.dims)-len(sh.dims) < len(shape) {
		sh.dims = make([]int, 0, 256)
	}
	n := len(sh.dims)
	sh.dims = append(sh.dims, shape...)
	sh.Out = append(sh.Out, tensor.Spec{DType: dt, Shape: sh.dims[n:len(sh.dims):len(sh.dims)]})
}

// Like appends an output of the given spec.
func (sh *Shapes) Like(s tensor.Spec) { sh.Out = append(sh.Out, s) }

// reset empties sh for the next op. Shapes handed out by Add stay valid: their room is never cut twice.
func (sh *Shapes) reset() {
	sh.Out, sh.Hidden, sh.Draws = sh.Out[:0], 0, 0
	sh.Scratch, sh.Shared, sh.Chunks = 0, 0, 0
	sh.BwdScratch, sh.BwdShared, sh.BwdChunks = 0, 0, 0
}

// Fwd is what Forward sees.
type Fwd struct {
	Run
	// In are the inputs: contiguous unless the rule says Strided or the op takes them; broadcast ones expanded.
	In []tensor.Tensor
	// Out are the outputs to fill: contiguous, their content undefined. Hidden outputs that nobody wants are empty
	// (no data).
	Out []tensor.Tensor
	// Rand is where the op's random words start, for a Random op.
	Rand tensor.Stream
}

// Bwd is what Backward sees.
type Bwd struct {
	Run
	// Rand is the stream as it was in Forward.
	Rand tensor.Stream

	node  *node
	tile  *tileLane       // of a part of the rows; nil: of all
	grads []tensor.Tensor // of the outputs
	in    []tensor.Tensor // what was read, by input; empty where not read
	out   []tensor.Tensor
	dst   []tensor.Tensor
	add   []bool
}

// Grad is the gradient of output i, contiguous, or nil if none arrived (then it is zero).
func (b *Bwd) Grad(i int) *tensor.Tensor { return present(&b.grads[i]) }

// In is input i as Forward saw it. It panics if the rule does not say that a wanted gradient reads it.
func (b *Bwd) In(i int) *tensor.Tensor { return b.must(&b.in[i], "input", i) }

// Out is output i as Forward left it, under the same condition.
func (b *Bwd) Out(i int) *tensor.Tensor { return b.must(&b.out[i], "output", i) }

// Inputs is how many inputs the op has.
func (b *Bwd) Inputs() int { return len(b.node.in) }

// InSpec is the spec of input i (of the broadcast view, for a Broadcast op), always there. For kernels that do not take
// half types it says Float32.
func (b *Bwd) InSpec(i int) tensor.Spec {
	if b.tile != nil {
		return b.tile.in[i]
	}
	return b.node.inSpec(i)
}

// OutSpec is the spec of output i, always there, likewise.
func (b *Bwd) OutSpec(i int) tensor.Spec {
	if b.tile != nil {
		return b.tile.out[i]
	}
	return b.node.sight.spec(b.node.outs[i])
}

// Into is where the gradient of input i goes, and whether Backward adds to it or fills it. dst is nil if that gradient
// is not wanted. It is the parameter's gradient or the running sum itself: no temporary stands between.
func (b *Bwd) Into(i int) (dst *tensor.Tensor, add bool) { return present(&b.dst[i]), b.add[i] }
