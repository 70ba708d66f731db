// Package tensor is n-dimensional arrays over counted memory: element types, shapes, strided views, conversion, filling
// and printing. It has no arithmetic and records no gradients; ops and autograd do.
//
// # Invariants
//
//   - A [Tensor] is a handle: a buffer, a [Spec], strides and an offset. Copying it takes no reference. [New], [Make],
//     [Zeros], [From], [Tensor.Contiguous] and [Tensor.To] give one reference to the caller, who calls Release; nothing
//     else in the package retains or releases.
//   - Views ([Tensor.Slice], Select, Transpose, Permute, Reshape, Expand, Unsqueeze, Squeeze) share the buffer and its
//     version, copy nothing and need nobody's bytes, so they are the same on a virtual device. They die with the base.
//   - A Shape is never modified after it was made, so that anyone may keep it without copying.
//   - Strides count elements, are never negative, and are 0 only in dimensions that Expand repeated. A tensor is
//     contiguous exactly if it carries no strides.
//   - What is written bumps the version, whatever wrote it: the functions here by themselves, kernels that use [Data] or
//     [Raw] through the engine.
//   - Without bytes (a virtual device, what a dry run made) every function checks its arguments, bumps versions and
//     advances streams as it would with them, and moves no data. While a device is forked its real bytes are not
//     written either.
//   - Bool elements are one byte, 0 or 1.
//   - Half types are storage: what is read of them is widened exactly, what is written is rounded once.
//   - Random values are a function of stream and row-major index. Words, chunks and the order of work are in random.go,
//     and never change, because saved runs rely on them.
//
// # Errors and panics
//
// Functions that a user calls return errors, which name the operation and all specs. [Data], [Raw], [Over], [Tensor.On],
// [Tensor.BroadcastTo], [Tensor.At] and [Spec.Dim], which kernels and engines call with what was checked before, panic.
package tensor
