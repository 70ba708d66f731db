// Package ops is the operations that the graph of package autograd is made of, one a file, forward and backward side by
// side. Names and meanings are torch's; where a function differs, its comment says so.
//
// # Conventions
//
//   - s is the scope that owns the result and says what is recorded, saved and drawn. x is the input.
//   - An op takes the four float dtypes, its float inputs all of one (but under autocast), and gives the same. Half types
//     are computed with in float32 and rounded once. Targets and indices are
//     Int64 or Int32. Anything else is an error that says what was wanted. Ops that only move elements, views among
//     them, take any dtype. Add, Sub, Mul, comparisons and choices take Int64 and Int32 too, logic takes Bool, and there
//     is no gradient.
//   - Shapes are torch's: leading dimensions of any number (written "..."), sizes of 0, and rank 0 where it makes sense.
//   - Inputs may be views with any strides; where a kernel wants its rows without gaps, the engine makes a copy that
//     lives as long as the kernel runs.
//   - An op panics with an *autograd.Error that names op, scope and specs; Session.Step and Plan return it.
//   - No op allocates: Infer tells the engine what it wants, from specs and configuration alone.
//   - Work is cut by shape, sums have one order, NaN and Inf go through as IEEE 754 says. So bits depend on neither
//     workers nor scheduling, and 0 times Inf is NaN.
//
// # In place
//
// AddInPlace, MulInPlace, ReLUInPlace, DropoutInPlace and Zero write over their first input, whose buffer the result takes
// over. That is legal where nothing reads the old value any more:
//
//   - Leaves that require a gradient and views of them, views made under NoGrad, one of several views and expanded tensors
//     are refused at once, and so is a shape or dtype that would not fit.
//   - A value that a gradient reads ([Catalog], docs/saved.md) is refused by Backward, which names the op that saved it.
//   - Using the input afterwards, or another view of it made before, is an error.
//
// After Linear, Conv2D, BatchNorm, Add and views the result is free to be written over: none of them saves it.
//
// # What is kept for backward
//
// Each op says what its gradients read (autograd.Rule.Reads), and the engine keeps that and nothing else: of an input
// the storage itself, of a parameter nothing, under NoGrad nothing at all. The table of all ops is docs/saved.md,
// generated from [Catalog] by go generate. docs/dtypes.md, the dtypes that each op takes, comes from calling them.
package ops

//go:generate go run ../internal/docgen ../docs/saved.md
//go:generate go test -count=1 -run TestDTypes . -args -update
