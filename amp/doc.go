// Package amp is mixed precision: the policies of autocast, and loss scaling.
//
//	loss := model.Loss(s.WithAutocast(amp.BFloat16), x, y)
//	loss.Backward(s)
//
// BFloat16 has the range of float32 and needs no more than that. Gradients in Float16 want a GradScaler:
//
//	loss := model.Loss(s.WithAutocast(amp.Float16), x, y)
//	scaler.Backward(s, loss)
//	stepped, err := scaler.Step(s, opt)
//	opt.ZeroGrad(s)
//	err = scaler.Update(s)
//
// A train.Window does all of it, given the scaler in its config. Models wholly in a half type take neither: layers have a
// DType, and optim.HalfUpdate says how their weights take updates.
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
//
// # What the scaler does
//
// Its states and its arithmetic are those of torch.amp.GradScaler. Decisions:
//
//   - Backward starts from the factor instead of from 1, so scaling is no operation, and has no value of its own. The factor
//     stays with each gradient (autograd.Param.GradScale): gradients of two factors are never added up, a pass that would is
//     refused, and so are gradients that the scaler did not make, or that go to an optimizer or to clipping with the factor
//     still in them. An Update in the middle of a window is found by that, and by the optimizers that were not stepped.
//   - Gradients are read once, for NaN and Inf and, with ClipGradNorm, for their norm. They are not written: the optimizer
//     multiplies by 1/Scale and the coefficient of clipping inside its own pass (StepScaled). With a power of two the bits
//     are those of training without a scaler. Unscale is there for who wants to see gradients as they are.
//   - A skipped update clears the gradients of that optimizer, those of a whole window of micro-batches too, and moves
//     nothing: no step counter, no moment, no weight decay. Step says so, and schedules and averages are left alone by who
//     steps them. LastSkip names the gradients that were not finite.
//   - An optimizer without any gradient is left alone, and that is no error, since with several optimizers it happens; that
//     none of them had one is.
//   - The factor has a floor (MinScale), and after MaxSkips windows in a row that were skipped Step gives an error with the
//     first gradient that is not finite: an update that can never happen must not look like training.
//   - Parameters in Float16 are refused: divided by the factor, their gradients would underflow again.
//   - A step that fails leaves the scaler as it was. A dry run takes all gradients for finite, so that the plan is that of
//     an update that happens; a skipped one allocates less.
package amp
