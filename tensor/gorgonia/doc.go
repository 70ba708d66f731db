// Package gorgonia is the bridge to gorgonia.org/tensor: tensors out as a *Dense, a *Dense in as a tensor. It is the only
// package of the library that links Gorgonia, for programs that have code on either side.
//
// # Who owns the bytes
//
// A tensor's bytes lie in its device's arena, are counted there, and go when the last reference is released. A Dense
// lies on Go's heap, is counted by nobody, and goes when the collector finds out. What passes from one to the other:
//
//   - [ToDense] shares a contiguous Float32 or Float64 tensor: the Dense is over the tensor's own bytes. It holds no
//     reference, having no method that could end one: the caller keeps the storage alive (Tensor.Retain) for as long as
//     the Dense, each slice of it, and every result that Gorgonia makes over the same memory are in use. A Dense that
//     outlives its storage reads what came after, or crashes the program once the device is closed. Views and other
//     dtypes, which are labels and masks mostly, are copied to Go's heap, and live on their own.
//   - Who writes through a shared Dense (UseUnsafe, WithReuse, SetAt) calls Tensor.Bump, as with tensor.Data.
//   - [FromDense] copies, always. A tensor over a Dense's memory would be bytes that no device counts, and the library's
//     figures would not be true any more; so there is none.
//
// # Dtypes
//
// Float32, Float64, Int64, Int32, Uint8 and Bool are the same on both sides. A Dense of Go's int comes in as Int64.
// Gorgonia has no half types, and a Dense's other types (complex numbers, strings, the rest of the integers) have no
// counterpart here.
//
// # What is refused, and why
//
// A Dense that was sliced and transposed, in either order. Gorgonia 0.9.24 computes these wrongly: a slice of a
// transposed matrix counts as contiguous, though it is not, so that Materialize gives other numbers than At; and a
// transposed slice that is a vector forgets its stride. The way out is to Materialize in between. Masked tensors, since a
// tensor has nowhere to put the mask. Tensors without elements on the way out, since a Dense without elements panics.
package gorgonia
