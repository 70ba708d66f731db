package ops_test

import (
	"slices"

	"github.com/thimble-ml/thimble/autograd"
	"github.com/thimble-ml/thimble/ops"
	"github.com/thimble-ml/thimble/tensor"
)

// picked is a reference that takes each element of its result, of the shape that shape makes of x's, from x.
func picked(shape func(x []int) []int, from func(idx []int) []int) func([]array) []array {
	return want1(func(in []array) array {
		return each(shape(in[0].shape), func(idx []int) float64 { return in[0].at(from(slices.Clone(idx))...) })
	})
}

// sized is a result of the given shape.
func sized(shape ...int) func([]int) []int { return func([]int) []int { return shape } }

// refReshape keeps the elements in their order.
func refReshape(shape ...int) func([]array) []array {
	return refShape(func([]int) []int { return shape })
}

// refShape is refReshape to what to makes of x's shape.
func refShape(to func(x []int) []int) func([]array) []array {
	return want1(func(in []array) array { return array{append([]int{}, to(in[0].shape)...), in[0].data} })
}

// refPermute puts dimension dims[i] at place i.
func refPermute(dims ...int) func([]array) []array {
	return picked(func(x []int) []int {
		shape := make([]int, len(dims))
		for i, d := range dims {
			shape[i] = x[d]
		}
		return shape
	}, func(idx []int) []int {
		from := make([]int, len(dims))
		for i, d := range dims {
			from[d] = idx[i]
		}
		return from
	})
}

func refStep(dim, lo, hi, step int) func([]array) []array {
	return picked(func(x []int) []int {
		shape := slices.Clone(x)
		shape[dim] = (hi - lo + step - 1) / step
		return shape
	}, func(idx []int) []int {
		idx[dim] = lo + step*idx[dim]
		return idx
	})
}

func refSelect(dim, i int) func([]array) []array {
	return picked(func(x []int) []int { return slices.Delete(slices.Clone(x), dim, dim+1) },
		func(idx []int) []int { return slices.Insert(idx, dim, i) })
}

func refUnbind(dim int) func([]array) []array {
	return func(in []array) (parts []array) {
		for i := range in[0].shape[dim] {
			parts = append(parts, refSelect(dim, i)(in)...)
		}
		return parts
	}
}

func refExpand(shape ...int) func([]array) []array { // at repeats sizes of 1 and ignores leading indices
	return picked(sized(shape...), func(idx []int) []int { return idx })
}

func refRepeat(times ...int) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		shape := slices.Clone(times)
		lead := len(times) - len(x.shape)
		for d, n := range x.shape {
			shape[lead+d] *= n
		}
		return each(shape, func(idx []int) float64 {
			from := slices.Clone(idx[lead:])
			for d, n := range x.shape {
				from[d] %= n
			}
			return x.at(from...)
		})
	})
}

func cat(dim int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return ops.Cat(s, dim, in...) })
}

func stack(dim int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return ops.Stack(s, dim, in...) })
}

func refCat(dim int) func([]array) []array {
	return want1(func(in []array) array {
		shape := slices.Clone(in[0].shape)
		for _, x := range in[1:] {
			shape[dim] += x.shape[dim]
		}
		return each(shape, func(idx []int) float64 {
			idx, k := slices.Clone(idx), 0
			for ; idx[dim] >= in[k].shape[dim]; k++ {
				idx[dim] -= in[k].shape[dim]
			}
			return in[k].at(idx...)
		})
	})
}

func refStack(dim int) func([]array) []array {
	return want1(func(in []array) array {
		return each(slices.Insert(slices.Clone(in[0].shape), dim, len(in)), func(idx []int) float64 {
			return in[idx[dim]].at(slices.Delete(slices.Clone(idx), dim, dim+1)...)
		})
	})
}

func pad(v float64, pads ...int) func(*autograd.Scope, []value) []value {
	return unary(func(s *autograd.Scope, x value) value { return ops.Pad(s, x, v, pads...) })
}

func refPad(v float64, pads ...int) func([]array) []array {
	return want1(func(in []array) array {
		x := in[0]
		shape, before := slices.Clone(x.shape), make([]int, len(x.shape))
		for k := 0; k < len(pads); k += 2 {
			d := len(shape) - 1 - k/2
			before[d] = pads[k]
			shape[d] += pads[k] + pads[k+1]
		}
		return each(shape, func(idx []int) float64 {
			idx = slices.Clone(idx)
			for d := range idx {
				if idx[d] -= before[d]; idx[d] < 0 || idx[d] >= x.shape[d] {
					return v
				}
			}
			return x.at(idx...)
		})
	})
}

func refTriangle(keep func(k int) bool) func([]array) []array {
	return want1(func(in []array) array {
		return each(in[0].shape, func(idx []int) float64 {
			if n := len(idx); !keep(idx[n-1] - idx[n-2]) {
				return 0
			}
			return in[0].at(idx...)
		})
	})
}

func gather(dim int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return ops.Gather(s, in[0], dim, in[1]) })
}

func refGather(dim int) func([]array) []array {
	return want1(func(in []array) array {
		return each(in[1].shape, func(idx []int) float64 {
			from := slices.Clone(idx)
			from[dim] = int(in[1].at(idx...))
			return in[0].at(from...)
		})
	})
}

func indexSelect(dim int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value { return ops.IndexSelect(s, in[0], dim, in[1]) })
}

func refIndexSelect(dim int) func([]array) []array {
	return want1(func(in []array) array {
		shape := slices.Clone(in[0].shape)
		shape[dim] = in[1].shape[0]
		return each(shape, func(idx []int) float64 {
			from := slices.Clone(idx)
			from[dim] = int(in[1].data[idx[dim]])
			return in[0].at(from...)
		})
	})
}

// padded looks rows up of which one is padding.
func padded(i int) func(*autograd.Scope, []value) []value {
	return one(func(s *autograd.Scope, in []value) value {
		return ops.Embedding(s, in[0], in[1], ops.PaddingIndex(i))
	})
}

type S = *autograd.Scope

// shapeRows are the ops that only move elements: views, joins, paddings, gathers.
var shapeRows = []row{
	{
		name: "slice/step", entry: "Slice", want: refStep(1, 1, 6, 2),
		call:  unary(func(s S, x value) value { return ops.SliceStep(s, x, 1, 1, 6, 2) }),
		in:    []arg{floats(2, 7, 3)},
		large: []arg{floats(40, 7, 300)},
	},
	{
		name: "slice/step, last dim", entry: "Slice", want: refStep(1, 0, 5, 3),
		call: unary(func(s S, x value) value { return ops.SliceStep(s, x, -1, 0, 5, 3) }), in: []arg{floats(3, 5)},
	},
	{
		name: "slice/narrow", entry: "Slice", want: refStep(0, 2, 3, 1),
		call: unary(func(s S, x value) value { return ops.Narrow(s, x, 0, 2, 1) }), in: []arg{floats(4, 3)},
	},
	{
		name: "select", entry: "Select", want: refSelect(1, 2),
		call:  unary(func(s S, x value) value { return ops.Select(s, x, 1, 2) }),
		in:    []arg{floats(2, 4, 3)},
		large: []arg{floats(90, 4, 300)},
	},
	{
		name: "select/number", entry: "Select", want: refSelect(0, 1),
		call: unary(func(s S, x value) value { return ops.Select(s, x, -1, 1) }), in: []arg{floats(3)},
	},
	{
		name: "select/no elements", entry: "Select", want: refSelect(0, 1),
		call: unary(func(s S, x value) value { return ops.Select(s, x, 0, 1) }), in: []arg{floats(3, 0)},
	},
	{
		name: "unbind", entry: "Unbind", want: refUnbind(1),
		call:  func(s S, in []value) []value { return ops.Unbind(s, in[0], 1) },
		in:    []arg{floats(2, 3, 4)},
		large: []arg{floats(90, 3, 300)},
	},

	{
		name: "reshape", entry: "Reshape", want: refShape(func(x []int) []int { return []int{x[0] * x[1] / 3, 3} }),
		call:  unary(func(s S, x value) value { return ops.Reshape(s, x, -1, 3) }),
		in:    []arg{floats(2, 6)},
		large: []arg{floats(20000, 3)},
	},
	{
		name: "reshape/split heads", entry: "Reshape", want: refReshape(2, 3, 2, 2),
		call: unary(func(s S, x value) value { return ops.Reshape(s, x, 2, 3, 2, 2) }), in: []arg{floats(2, 3, 4)},
	},
	{
		name: "reshape/number", entry: "Reshape", want: refReshape(1, 1),
		call: unary(func(s S, x value) value { return ops.Reshape(s, x, 1, 1) }), in: []arg{floats()},
	},
	{
		name: "reshape/to a number", entry: "Reshape", want: refReshape(),
		call: unary(func(s S, x value) value { return ops.Reshape(s, x) }), in: []arg{floats(1, 1)},
	},
	{
		name: "reshape/no elements", entry: "Reshape", want: refReshape(3, 0),
		call: unary(func(s S, x value) value { return ops.Reshape(s, x, 3, 0) }), in: []arg{floats(0, 2)},
	},
	{
		name: "flatten", entry: "Flatten", want: refShape(func(x []int) []int { return []int{x[0], x[1] * x[2], x[3]} }),
		call:  unary(func(s S, x value) value { return ops.Flatten(s, x, 1, -2) }),
		in:    []arg{floats(2, 3, 4, 2)},
		large: []arg{floats(2, 30, 4, 200)},
	},
	{
		name: "squeeze", entry: "Squeeze", want: refReshape(2, 3),
		call: unary(func(s S, x value) value { return ops.Squeeze(s, x, -2) }), in: []arg{floats(2, 1, 3)},
	},
	{
		name: "unsqueeze", entry: "Unsqueeze", want: refReshape(2, 3, 1),
		call: unary(func(s S, x value) value { return ops.Unsqueeze(s, x, -1) }), in: []arg{floats(2, 3)},
	},
	{
		name: "unsqueeze/number", entry: "Unsqueeze", want: refReshape(1),
		call: unary(func(s S, x value) value { return ops.Unsqueeze(s, x, 0) }), in: []arg{floats()},
	},
	{
		name: "contiguous", entry: "Contiguous", want: refShape(func(x []int) []int { return x }),
		call: unary(ops.Contiguous), in: []arg{floats(3, 4)},
		large: []arg{floats(300, 200)},
	},

	{
		name: "permute", entry: "Permute", want: refPermute(2, 0, 1),
		call:  unary(func(s S, x value) value { return ops.Permute(s, x, 2, 0, -2) }),
		in:    []arg{floats(2, 3, 4)},
		large: []arg{floats(20, 30, 100)},
	},
	{
		name: "permute/number", entry: "Permute", want: refReshape(),
		call: unary(func(s S, x value) value { return ops.Permute(s, x) }), in: []arg{floats()},
	},
	{
		name: "transpose", entry: "Transpose", want: refPermute(0, 2, 1),
		call:  unary(func(s S, x value) value { return ops.Transpose(s, x, 1, -1) }),
		in:    []arg{floats(2, 3, 4)},
		large: []arg{floats(20, 30, 100)},
	},

	{
		name: "expand", entry: "Expand", want: refExpand(2, 2, 5),
		call:  unary(func(s S, x value) value { return ops.Expand(s, x, 2, -1, 5) }),
		in:    []arg{floats(2, 1)},
		large: []arg{floats(2, 1)},
	},
	{
		name: "expand/rows", entry: "Expand", want: refExpand(300, 4, 50),
		call: unary(func(s S, x value) value { return ops.Expand(s, x, 300, 4, 50) }), in: []arg{floats(4, 50)},
	},
	{
		name: "expand/number", entry: "Expand", want: refExpand(3),
		call: unary(func(s S, x value) value { return ops.Expand(s, x, 3) }), in: []arg{floats()},
	},
	{
		name: "expand/nothing repeated", entry: "Expand", want: refExpand(2, 3),
		call: unary(func(s S, x value) value { return ops.Expand(s, x, -1, 3) }), in: []arg{floats(2, 3)},
	},
	{
		name: "expand/to nothing", entry: "Expand", want: refExpand(0, 3),
		call: unary(func(s S, x value) value { return ops.Expand(s, x, 0, 3) }), in: []arg{floats(1, 3)},
	},

	{
		name: "cat", entry: "Cat", call: cat(0), want: refCat(0),
		in:    []arg{floats(2, 3), floats(1, 3), floats(2, 3)},
		large: []arg{floats(90, 300), floats(1, 300), floats(200, 300)},
	},
	{
		name: "cat/last dim", entry: "Cat", call: cat(-1), want: refCat(1),
		in:    []arg{floats(2, 3), floats(2, 0), floats(2, 1)},
		large: []arg{floats(90, 300), floats(90, 1), floats(90, 200)},
	},
	{
		name: "cat/middle", entry: "Cat", call: cat(1), want: refCat(1),
		in: []arg{floats(2, 1, 3), floats(2, 2, 3)},
	},
	{name: "cat/one", entry: "Cat", call: cat(0), want: refCat(0), in: []arg{floats(3)}},
	{name: "cat/no elements", entry: "Cat", call: cat(0), want: refCat(0), in: []arg{floats(0, 2), floats(0, 2)}},
	{
		name: "stack", entry: "Stack", call: stack(1), want: refStack(1),
		in:    []arg{floats(2, 3), floats(2, 3), floats(2, 3)},
		large: []arg{floats(70, 300), floats(70, 300)},
	},
	{name: "stack/first", entry: "Stack", call: stack(0), want: refStack(0), in: []arg{floats(3, 2), floats(3, 2)}},
	{name: "stack/last", entry: "Stack", call: stack(-1), want: refStack(1), in: []arg{floats(3), floats(3)}},
	{name: "stack/numbers", entry: "Stack", call: stack(0), want: refStack(0), in: []arg{floats(), floats()}},

	{
		name: "pad", entry: "Pad", call: pad(1.5, 1, 2, 0, 1), want: refPad(1.5, 1, 2, 0, 1),
		in:    []arg{floats(2, 3, 4)},
		large: []arg{floats(3, 100, 200)},
	},
	{
		name: "pad/cut", entry: "Pad", call: pad(7, -1, 2, 1, -1), want: refPad(7, -1, 2, 1, -1),
		in:    []arg{floats(3, 4)},
		large: []arg{floats(300, 200)},
	},
	{name: "pad/all cut", entry: "Pad", call: pad(7, -5, 4), want: refPad(7, -5, 4), in: []arg{floats(2, 3)}},
	{name: "pad/all cut, before", entry: "Pad", call: pad(7, 4, -5), want: refPad(7, 4, -5), in: []arg{floats(2, 3)}},
	{name: "pad/to nothing", entry: "Pad", call: pad(7, -2, -1), want: refPad(7, -2, -1), in: []arg{floats(2, 3)}},
	{name: "pad/nothing", entry: "Pad", call: pad(7, 1, 1, 0, 2), want: refPad(7, 1, 1, 0, 2), in: []arg{floats(2, 0)}},
	{name: "pad/not at all", entry: "Pad", call: pad(7), want: refPad(7), in: []arg{floats()}},

	{
		name: "repeat", entry: "Repeat", want: refRepeat(2, 1, 3),
		call:  unary(func(s S, x value) value { return ops.Repeat(s, x, 2, 1, 3) }),
		in:    []arg{floats(2, 3)},
		large: []arg{floats(90, 300)},
	},
	{
		name: "repeat/number", entry: "Repeat", want: refRepeat(4),
		call: unary(func(s S, x value) value { return ops.Repeat(s, x, 4) }), in: []arg{floats()},
	},
	{
		name: "repeat/never", entry: "Repeat", want: refRepeat(0, 2),
		call: unary(func(s S, x value) value { return ops.Repeat(s, x, 0, 2) }), in: []arg{floats(2, 3)},
	},

	{
		name: "tril", entry: "Tril", want: refTriangle(func(k int) bool { return k <= 0 }),
		call:  unary(func(s S, x value) value { return ops.Tril(s, x, 0) }),
		in:    []arg{floats(2, 3, 4)},
		large: []arg{floats(3, 150, 200)},
	},
	{
		name: "tril/above", entry: "Tril", want: refTriangle(func(k int) bool { return k <= 1 }),
		call: unary(func(s S, x value) value { return ops.Tril(s, x, 1) }), in: []arg{floats(4, 3)},
	},
	{
		name: "tril/no elements", entry: "Tril", want: refTriangle(func(k int) bool { return k <= 0 }),
		call: unary(func(s S, x value) value { return ops.Tril(s, x, 0) }), in: []arg{floats(0, 3)},
	},
	{
		name: "triu", entry: "Triu", want: refTriangle(func(k int) bool { return k >= -1 }),
		call:  unary(func(s S, x value) value { return ops.Triu(s, x, -1) }),
		in:    []arg{floats(2, 4, 3)},
		large: []arg{floats(3, 150, 200)},
	},
	{
		name: "triu/nothing", entry: "Triu", want: refTriangle(func(int) bool { return false }),
		call: unary(func(s S, x value) value { return ops.Triu(s, x, 1<<62) }), in: []arg{floats(2, 3)},
	},

	{
		name: "gather", entry: "Gather", call: gather(1), want: refGather(1),
		in:    []arg{floats(3, 4, 2), idx(4, 2, 5, 2)},
		large: []arg{floats(40, 30, 200), idx(30, 37, 10, 150)},
		keeps: "index", bytes: 2 * 5 * 2 * 8,
	},
	{
		name: "gather/last dim", entry: "Gather", call: gather(-1), want: refGather(1),
		in:    []arg{floats(3, 4), idx32(4, 3, 6)},
		large: []arg{floats(200, 40), idx32(40, 190, 300)},
		keeps: "index", bytes: 3 * 6 * 4,
	},
	{
		name: "gather/row", entry: "Gather", call: gather(0), want: refGather(0),
		in:    []arg{floats(5), idx(5, 7)},
		keeps: "index", bytes: 7 * 8,
	},
	{
		name: "gather/nothing", entry: "Gather", call: gather(0), want: refGather(0),
		in:    []arg{floats(0, 3), idx(1, 0, 3)},
		keeps: "index", bytes: 0,
	},
	{
		name: "index_select", entry: "IndexSelect", call: indexSelect(0), want: refIndexSelect(0),
		in:    []arg{floats(5, 3), idx(5, 7)},
		large: []arg{floats(50, 300), idx(50, 400)},
		keeps: "index", bytes: 7 * 8,
	},
	{
		name: "index_select/middle", entry: "IndexSelect", call: indexSelect(1), want: refIndexSelect(1),
		in:    []arg{floats(2, 4, 3), idx32(4, 3)},
		large: []arg{floats(60, 40, 30), idx32(40, 70)},
		keeps: "index", bytes: 3 * 4,
	},
	{
		name: "index_select/last dim", entry: "IndexSelect", call: indexSelect(-1), want: refIndexSelect(1),
		in:    []arg{floats(2, 4), idx(4, 3)},
		large: []arg{floats(300, 40), idx(40, 90)},
		keeps: "index", bytes: 3 * 8,
	},
	{
		name: "index_select/nothing", entry: "IndexSelect", call: indexSelect(0), want: refIndexSelect(0),
		in:    []arg{floats(2, 4), idx(1, 0)},
		keeps: "index", bytes: 0,
	},

	{
		name: "embedding/padding", entry: "Embedding", want: want1(refEmbedding),
		call: padded(-1), in: []arg{floats(4, 3), {shape: []int{3}, dt: tensor.Int64, set: []float64{0, 2, 0}}},
		keeps: "index", bytes: 3 * 8,
	},

	{
		name: "matmul/transposed left", entry: "MatMul", want: want1(func(in []array) array {
			return refMatMul([]array{refPermute(1, 0)(in[:1])[0], in[1]})
		}),
		call:  one(func(s S, in []value) value { return ops.MatMul(s, ops.Transpose(s, in[0], 0, 1), in[1]) }),
		in:    []arg{floats(5, 3), floats(5, 4)},
		large: []arg{floats(220, 200), floats(220, 300)},
		keeps: "a, b", bytes: 3*5*4 + 5*4*4,
	},
	{
		name: "matmul/heads", entry: "MatMul", want: want1(func(in []array) array {
			return refMatMul([]array{refPermute(0, 2, 1, 3)(in[:1])[0], refPermute(0, 2, 3, 1)(in[1:])[0]})
		}),
		call: one(func(s S, in []value) value {
			return ops.MatMul(s, ops.Permute(s, in[0], 0, 2, 1, 3), ops.Permute(s, in[1], 0, 2, 3, 1))
		}),
		in:    []arg{floats(2, 3, 2, 4), floats(2, 5, 2, 4)},
		large: []arg{floats(2, 70, 3, 40), floats(2, 90, 3, 40)},
		keeps: "a, b", bytes: 2*3*2*4*4 + 2*5*2*4*4,
	},
	{
		name: "matmul/one matrix for transposed rows", entry: "MatMul", want: want1(func(in []array) array {
			return refMatMul([]array{refPermute(1, 0, 2)(in[:1])[0], in[1]})
		}),
		call:  one(func(s S, in []value) value { return ops.MatMul(s, ops.Transpose(s, in[0], 0, 1), in[1]) }),
		in:    []arg{floats(3, 2, 5), floats(5, 4)}, // no one distance between rows: a copy
		keeps: "a, b", bytes: 3*2*5*4 + 5*4*4,
	},
}
