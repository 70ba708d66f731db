// Package kernel is every inner loop of the library: slices, lengths and strides in, numbers out. It knows no tensor,
// no device and no goroutine; package ops cuts the work and calls it.
//
// # Laws
//
//   - A kernel allocates nothing. What it needs beside its operands is a fixed array on the stack or comes as a slice.
//   - A kernel works on the piece that it is given and looks at nothing else, so pieces may run in any order and at the
//     same time. Pieces are cut by shape alone (Range, RowRange, ColRange), never by how many workers there are. Sums
//     that cross pieces go through one partial sum a piece, added up in one fixed order by a Finish function.
//   - NaN and Inf go through as IEEE 754 says: no term is skipped because a factor is zero.
//   - Reductions are carried in float64 and rounded once, whatever the element type is. Sums that are made in the
//     destination itself (GEMM, Accumulate, EmbeddingBackward) are its type's.
//   - Plain Go computes functions in float64 and rounds once. Vector versions compute them in float32: exp, log, tanh,
//     sigmoid and roots within two units in the last place, activations and gradients within four or 1e-6.
//   - Bits are a promise for one build (tag, architecture, CPU family), not between builds. Within one, the order of a sum
//     hangs on lengths alone: vector versions of arithmetic, updates, norms and sums down columns do what plain Go does,
//     operation for operation; along a row they add up in more chains. An element's value never hangs on where it lies.
//
// # Conventions
//
// The destination comes first. Where a function has a parameter add, it adds to the destination if add is true and
// fills it otherwise, whatever it held before. A destination may be the very same memory as an operand of the same
// shape, but may not overlap one at a shift. Row kernels take matrices as flat slices, row after row, and the number of
// columns. Operands that are optional are nil; Cut takes the piece of one. Lengths are the caller's duty: a wrong one ends
// in an index out of range, not in an error.
package kernel
