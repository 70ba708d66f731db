package ops_test

import (
	"math/rand/v2"
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/internal/philox"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// The table of all ops. table_checks_test.go runs every check of the library's laws on every row; catalog_test.go fails
// if a rule has no row.

// row is one way to call one op.
type row struct {
	name  string
	entry string // ops.Entry.Func
	in    []arg
	large []arg // as many inputs, of shapes that every kernel cuts into several chunks; nil: not worth it
	call  func(s *autograd.Scope, in []*autograd.Value) []*autograd.Value
	want  func(in []array) []array

	// keeps is what the op keeps for backward when all float inputs require gradients, by the names of the catalog, and
	// bytes how much that is for in, in float32.
	keeps string
	bytes int64

	unrecorded bool // the op is never recorded: the call is one without gradients
}

// arg is an input: random numbers of order one, or indices.
type arg struct {
	shape []int
	dt    tensor.DType // of an index; the zero value, Float32, stands for the float type under test
	below int          // indices are from 0 to below-1
	set   []float64    // the elements, instead of random ones
}

func floats(shape ...int) arg { return arg{shape: shape} }

func idx(below int, shape ...int) arg { return arg{shape: shape, dt: tensor.Int64, below: below} }

func idx32(below int, shape ...int) arg { return arg{shape: shape, dt: tensor.Int32, below: below} }

func (a arg) index() bool { return a.dt != tensor.Float32 }

// values are the elements, rounded to float32 so that every float type holds them exactly.
func (a arg) values(seed uint64) array {
	v := newArray(a.shape...)
	r := rand.New(rand.NewPCG(seed, 7))
	for i := range v.data {
		switch {
		case a.set != nil:
			v.data[i] = a.set[i]
		case a.index():
			v.data[i] = float64(r.IntN(a.below))
		default:
			v.data[i] = float64(float32(r.NormFloat64()))
		}
	}
	return v
}

type value = *autograd.Value

// one makes a call of an op with one output.
func one(f func(s *autograd.Scope, in []value) value) func(*autograd.Scope, []value) []value {
	return func(s *autograd.Scope, in []value) []value { return []value{f(s, in)} }
}

// want1 makes a reference of one output.
func want1(f func([]array) array) func([]array) []array {
	return func(in []array) []array { return []array{f(in)} }
}

func linear(s *autograd.Scope, in []value) value {
	if len(in) == 2 {
		return ops.Linear(s, in[0], in[1], nil)
	}
	return ops.Linear(s, in[0], in[1], in[2])
}

func matMul(s *autograd.Scope, in []value) value { return ops.MatMul(s, in[0], in[1]) }
func add(s *autograd.Scope, in []value) value    { return ops.Add(s, in[0], in[1]) }

// addInPlace makes the value that it writes over: a leaf must not be.
func addInPlace(s *autograd.Scope, in []value) value {
	return ops.AddInPlace(s, ops.Add(s, in[0], in[0]), in[1])
}

func refAddInPlace(in []array) array { return refAdd([]array{refAdd([]array{in[0], in[0]}), in[1]}) }

func unary(f func(*autograd.Scope, value) value) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return f(s, in[0]) })
}

func layerNorm(dims int, eps float64) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		in = append(append([]value{}, in...), nil, nil)
		return ops.LayerNorm(s, in[0], dims, in[1], in[2], eps)
	})
}

func crossEntropy(s *autograd.Scope, in []value) value { return ops.CrossEntropy(s, in[0], in[1]) }
func embedding(s *autograd.Scope, in []value) value    { return ops.Embedding(s, in[0], in[1]) }

func dropout(p float64) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.Dropout(s, x, p) })
}

// seed of the sessions of this table: refDropout knows the words that their first step draws.
const seed = 1

func refDropout(p float64) func([]array) []array {
	return want1(func(in []array) array {
		y := newArray(in[0].shape...)
		words := make([]uint32, len(y.data))
		philox.Fill(words, seed, 0, 0)
		for i, v := range in[0].data {
			if y.data[i] = v / (1 - p); float64(words[i]) < p*(1<<32) {
				y.data[i] = 0
			}
		}
		return y
	})
}

func slice(dim, lo, hi int) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.Slice(s, x, dim, lo, hi) })
}

func split(dim, parts int) func(*autograd.Scope, []value) []value {
	return func(s *autograd.Scope, in []value) []value { return ops.Split(s, in[0], dim, parts) }
}

func splitSizes(dim int, sizes ...int) func(*autograd.Scope, []value) []value {
	return func(s *autograd.Scope, in []value) []value { return ops.SplitSizes(s, in[0], dim, sizes...) }
}

// refSplit is the parts between the given cuts.
func refSplit(dim int, cuts ...int) func([]array) []array {
	return func(in []array) (parts []array) {
		for i := range cuts[1:] {
			parts = append(parts, refSlice(dim, cuts[i], cuts[i+1])(in))
		}
		return parts
	}
}

// refEqual is equal parts.
func refEqual(dim, parts int) func([]array) []array {
	return func(in []array) []array {
		cuts := make([]int, parts+1)
		for i := range cuts {
			cuts[i] = i * in[0].shape[dim] / parts
		}
		return refSplit(dim, cuts...)(in)
	}
}

const ignore = ops.IgnoreIndex

// table is all rows; each family of ops has its list in a file of its own.
var table = slices.Concat(
	basicRows,
	imageRows,
	attentionRows,
	elementwiseRows,
	shapeRows,
	reductionRows,
	headRows,
	inPlaceRows,
	fusedRows,
)

// basicRows are linear, matmul, add, relu, gelu, layer norm, cross-entropy, dropout, embedding, slice and split.
var basicRows = []row{
	{
		name: "linear", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(2, 3, 5), floats(4, 5), floats(4)},
		large: []arg{floats(3, 70, 210), floats(300, 210), floats(300)},
		keeps: "x, weight", bytes: 2*3*5*4 + 4*5*4,
	},
	{
		name: "linear/no bias", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(7, 33), floats(9, 33)},
		keeps: "x, weight", bytes: 7*33*4 + 9*33*4,
	},
	{
		name: "linear/one row", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(5), floats(4, 5), floats(4)},
		keeps: "x, weight", bytes: 5*4 + 4*5*4,
	},
	{
		name: "linear/tall", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(3, 2), floats(1, 2), floats(1)},
		large: []arg{floats(40000, 3), floats(2, 3), floats(2)}, // partial sums of the bias
		keeps: "x, weight", bytes: 3*2*4 + 2*4,
	},
	{
		name: "linear/no rows", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(2, 0, 5), floats(4, 5), floats(4)},
		keeps: "x, weight", bytes: 4 * 5 * 4,
	},
	{
		name: "linear/nothing to add up", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(3, 0), floats(4, 0), floats(4)},
		keeps: "x, weight", bytes: 0,
	},
	{
		name: "linear/no columns", entry: "Linear", call: one(linear), want: want1(refLinear),
		in:    []arg{floats(3, 2), floats(0, 2), floats(0)},
		keeps: "x, weight", bytes: 3 * 2 * 4,
	},

	{
		name: "matmul", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(3, 5), floats(5, 4)},
		large: []arg{floats(200, 220), floats(220, 300)},
		keeps: "a, b", bytes: 3*5*4 + 5*4*4,
	},
	{
		name: "matmul/batched", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 3, 5), floats(2, 5, 4)},
		large: []arg{floats(5, 64, 80), floats(5, 80, 64)},
		keeps: "a, b", bytes: 2*3*5*4 + 2*5*4*4,
	},
	{
		name: "matmul/both repeated", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 1, 3, 2), floats(3, 2, 4)},
		large: []arg{floats(2, 1, 4, 40, 50), floats(3, 1, 50, 30)},
		keeps: "a, b", bytes: 2*3*2*4 + 3*2*4*4,
	},
	{
		name: "matmul/one matrix on the right", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 3, 4), floats(1, 1, 4, 2)},
		large: []arg{floats(30, 17, 64), floats(64, 90)},
		keeps: "a, b", bytes: 2*3*4*4 + 4*2*4,
	},
	{
		name: "matmul/one matrix on the left", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(3, 4), floats(2, 2, 4, 2)},
		large: []arg{floats(17, 64), floats(30, 64, 90)},
		keeps: "a, b", bytes: 3*4*4 + 2*2*4*2*4,
	},
	{
		name: "matmul/row", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(4), floats(2, 4, 3)},
		keeps: "a, b", bytes: 4*4 + 2*4*3*4,
	},
	{
		name: "matmul/column", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 3, 4), floats(4)},
		keeps: "a, b", bytes: 2*3*4*4 + 4*4,
	},
	{
		name: "matmul/dot", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(4), floats(4)},
		keeps: "a, b", bytes: 4*4 + 4*4,
	},
	{
		name: "matmul/no batch entries", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(1, 3, 4), floats(0, 4, 2)},
		keeps: "a, b", bytes: 3 * 4 * 4,
	},
	{
		name: "matmul/nothing to add up", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 3, 0), floats(2, 0, 2)},
		keeps: "a, b", bytes: 0,
	},
	{
		name: "matmul/no columns", entry: "MatMul", call: one(matMul), want: want1(refMatMul),
		in:    []arg{floats(2, 3, 2), floats(2, 2, 0)},
		keeps: "a, b", bytes: 2 * 3 * 2 * 4,
	},

	{
		name: "add", entry: "Add", call: one(add), want: want1(refAdd),
		in:    []arg{floats(2, 3), floats(2, 3)},
		large: []arg{floats(300, 200), floats(300, 200)},
	},
	{
		name: "add/row", entry: "Add", call: one(add), want: want1(refAdd),
		in:    []arg{floats(2, 3, 4), floats(4)},
		large: []arg{floats(40, 10, 200), floats(10, 200)},
	},
	{
		name: "add/column", entry: "Add", call: one(add), want: want1(refAdd),
		in:    []arg{floats(2, 1), floats(2, 4)},
		large: []arg{floats(200, 1), floats(200, 300)},
	},
	{
		name: "add/both", entry: "Add", call: one(add), want: want1(refAdd),
		in:    []arg{floats(2, 1, 4), floats(3, 1)},
		large: []arg{floats(200, 1, 40), floats(30, 1)},
	},
	{name: "add/number", entry: "Add", call: one(add), want: want1(refAdd), in: []arg{floats(2, 4), floats()}},
	{name: "add/two numbers", entry: "Add", call: one(add), want: want1(refAdd), in: []arg{floats(), floats()}},
	{name: "add/no elements", entry: "Add", call: one(add), want: want1(refAdd), in: []arg{floats(2, 0), floats(1)}},

	{
		name: "add_", entry: "AddInPlace", call: one(addInPlace), want: want1(refAddInPlace),
		in:    []arg{floats(2, 3), floats(2, 3)},
		large: []arg{floats(300, 200), floats(300, 200)},
	},
	{
		name: "add_/row", entry: "AddInPlace", call: one(addInPlace), want: want1(refAddInPlace),
		in: []arg{floats(2, 3, 4), floats(4)},
	},

	{
		name: "relu", entry: "ReLU", call: unary(ops.ReLU), want: want1(refMap(reluOf)),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
		keeps: "mask", bytes: 3, // 21 bits
	},
	{
		name: "relu/number", entry: "ReLU", call: unary(ops.ReLU), want: want1(refMap(reluOf)),
		in:    []arg{floats()},
		keeps: "mask", bytes: 1,
	},
	{
		name: "relu/no elements", entry: "ReLU", call: unary(ops.ReLU), want: want1(refMap(reluOf)),
		in:    []arg{floats(0, 3)},
		keeps: "mask", bytes: 0,
	},

	{
		name: "gelu", entry: "GELU", call: unary(ops.GELU), want: want1(refMap(geluOf)),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
		keeps: "x", bytes: 3 * 7 * 4,
	},
	{
		name: "gelu/number", entry: "GELU", call: unary(ops.GELU), want: want1(refMap(geluOf)),
		in:    []arg{floats()},
		keeps: "x", bytes: 4,
	},
	{
		name: "gelu_tanh", entry: "GELUTanh", call: unary(ops.GELUTanh), want: want1(refMap(geluTanhOf)),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
		keeps: "x", bytes: 3 * 7 * 4,
	},
	{
		name: "gelu_tanh/no elements", entry: "GELUTanh", call: unary(ops.GELUTanh), want: want1(refMap(geluTanhOf)),
		in:    []arg{floats(0)},
		keeps: "x", bytes: 0,
	},

	{
		name: "layer_norm", entry: "LayerNorm", call: layerNorm(1, 1e-5), want: want1(refLayerNorm(1, 1e-5)),
		in:    []arg{floats(2, 3, 6), floats(6), floats(6)},
		large: []arg{floats(40, 20, 600), floats(600), floats(600)},
		keeps: "x, weight, mean and rstd", bytes: 2*3*6*4 + 6*4 + 2*3*2*4,
	},
	{
		name: "layer_norm/two dimensions", entry: "LayerNorm", call: layerNorm(2, 1e-5), want: want1(refLayerNorm(2, 1e-5)),
		in:    []arg{floats(2, 3, 4), floats(3, 4), floats(3, 4)},
		large: []arg{floats(900, 3, 20), floats(3, 20), floats(3, 20)},
		keeps: "x, weight, mean and rstd", bytes: 2*3*4*4 + 3*4*4 + 2*2*4,
	},
	{
		name: "layer_norm/no bias", entry: "LayerNorm", call: layerNorm(1, 0), want: want1(refLayerNorm(1, 0)),
		in:    []arg{floats(5), floats(5)},
		keeps: "x, weight, mean and rstd", bytes: 5*4 + 5*4 + 2*4,
	},
	{
		name: "layer_norm/plain", entry: "LayerNorm, weight nil", call: layerNorm(1, 1e-5), want: want1(refLayerNorm(1, 1e-5)),
		in:    []arg{floats(4, 6)},
		large: []arg{floats(200, 300)},
		keeps: "x, mean and rstd", bytes: 4*6*4 + 4*2*4,
	},
	{
		name: "layer_norm/no rows", entry: "LayerNorm", call: layerNorm(1, 1e-5), want: want1(refLayerNorm(1, 1e-5)),
		in:    []arg{floats(0, 3), floats(3), floats(3)},
		keeps: "x, weight, mean and rstd", bytes: 3 * 4,
	},
	{
		name: "layer_norm/no columns", entry: "LayerNorm", call: layerNorm(1, 1e-5), want: want1(refLayerNorm(1, 1e-5)),
		in:    []arg{floats(2, 0), floats(0), floats(0)},
		keeps: "x, weight, mean and rstd", bytes: 2 * 2 * 4,
	},

	{
		name: "cross_entropy", entry: "CrossEntropy", call: one(crossEntropy), want: want1(refCrossEntropy),
		in:    []arg{floats(2, 3, 5), {shape: []int{2, 3}, dt: tensor.Int64, set: []float64{4, 0, ignore, 2, 2, 1}}},
		large: []arg{floats(300, 211), idx(211, 300)},
		keeps: "logits, targets, log-sum-exp", bytes: 2*3*5*4 + 2*3*8 + 2*3*4,
	},
	{
		name: "cross_entropy/int32", entry: "CrossEntropy", call: one(crossEntropy), want: want1(refCrossEntropy),
		in:    []arg{floats(4, 7), idx32(7, 4)},
		keeps: "logits, targets, log-sum-exp", bytes: 4*7*4 + 4*4 + 4*4,
	},
	{
		name: "cross_entropy/one row", entry: "CrossEntropy", call: one(crossEntropy), want: want1(refCrossEntropy),
		in:    []arg{floats(7), idx(7)},
		keeps: "logits, targets, log-sum-exp", bytes: 7*4 + 8 + 4,
	},

	{
		name: "dropout", entry: "Dropout", call: dropout(0.3), want: refDropout(0.3),
		in:    []arg{floats(3, 7)},
		large: []arg{floats(300, 201)},
	},
	{name: "dropout/number", entry: "Dropout", call: dropout(0.5), want: refDropout(0.5), in: []arg{floats()}},
	{name: "dropout/no elements", entry: "Dropout", call: dropout(0.5), want: refDropout(0.5), in: []arg{floats(0, 2)}},

	{
		name: "embedding", entry: "Embedding", call: one(embedding), want: want1(refEmbedding),
		in:    []arg{floats(9, 5), idx(9, 2, 6)},
		large: []arg{floats(50, 300), idx(50, 30, 40)},
		keeps: "index", bytes: 2 * 6 * 8,
	},
	{
		name: "embedding/int32", entry: "Embedding", call: one(embedding), want: want1(refEmbedding),
		in:    []arg{floats(4, 3), idx32(4, 7)},
		keeps: "index", bytes: 7 * 4,
	},
	{
		name: "embedding/one row", entry: "Embedding", call: one(embedding), want: want1(refEmbedding),
		in:    []arg{floats(4, 3), idx(4)},
		keeps: "index", bytes: 8,
	},
	{
		name: "embedding/no rows", entry: "Embedding", call: one(embedding), want: want1(refEmbedding),
		in:    []arg{floats(4, 3), idx(4, 0)},
		keeps: "index", bytes: 0,
	},
	{
		name: "embedding/no columns", entry: "Embedding", call: one(embedding), want: want1(refEmbedding),
		in:    []arg{floats(4, 0), idx(4, 2)},
		keeps: "index", bytes: 2 * 8,
	},

	{
		name: "slice", entry: "Slice", call: slice(1, 1, 3), want: want1(refSlice(1, 1, 3)),
		in:    []arg{floats(2, 4, 3)},
		large: []arg{floats(40, 4, 300)},
	},
	{name: "slice/negative dim", entry: "Slice", call: slice(-1, 0, 2), want: want1(refSlice(1, 0, 2)), in: []arg{floats(2, 4)}},
	{name: "slice/nothing", entry: "Slice", call: slice(0, 2, 2), want: want1(refSlice(0, 2, 2)), in: []arg{floats(2, 4)}},

	{
		name: "split", entry: "Split", call: split(-1, 3), want: refEqual(1, 3),
		in:    []arg{floats(2, 6)},
		large: []arg{floats(40, 1200)},
	},
	{name: "split/sizes", entry: "Split", call: splitSizes(0, 1, 0, 3), want: refSplit(0, 0, 1, 1, 4), in: []arg{floats(4, 2)}},
}
