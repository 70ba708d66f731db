// Package amp is mixed precision: the policies of autocast.
//
//	loss := model.Loss(s.WithAutocast(amp.BFloat16), x, y)
//	loss.Backward(s)
//
// # What autocast does
//
// It is a mode of a scope, so it nests, ends with its scope, and is part of what a recomputation restores. Each op's rule
// states its class (autograd.CastClass; docs/dtypes.md has the table); there is no list of names anywhere. Decisions:
//
//   - Parameters are never converted. A matrix product rounds a float32 weight while it is used; what is saved of it is its
//     name and version. There is no cast cache, and so none of its bugs: no stale copy after an update inside the region,
//     no copy without history from a first use under NoGrad, and the same tensors are saved in a recomputation.
//   - Values in float32 that a matrix product reads are rounded by a recorded cast, so that the half is what is saved.
//   - Norms, softmax and activations compute in float32 and give the dtype of their first input.
//   - Losses, exponentials, logarithms, powers and sums give float32.
//   - In a binary operation of a half and a float32 the result is float32. In-place operations keep the dtype of what they
//     write over.
//   - Float64 and integers are never touched: an op with a float64 input runs as if autocast was off.
//   - Backward takes the dtypes that forward took, whatever the scope. Gradients of float32 parameters are float32, and
//     come straight from the kernel, without having been rounded.
//   - Asking for a dtype other than Float16 and BFloat16 is an error.
package amp
