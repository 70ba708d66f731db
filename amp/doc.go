// Package amp is mixed precision: the policies of autocast, and the scaling of losses that Float16 needs.
//
//	err = sess.Step(ctx, func(s *autograd.Scope) error {
//		loss := model.Loss(s.WithAutocast(amp.Float16), x, y)
//		if err := scaler.Backward(s, loss); err != nil {
//			return err
//		}
//		if _, err := scaler.Step(s, opt); err != nil { // no update if a gradient is Inf or NaN
//			return err
//		}
//		opt.ZeroGrad(s)
//		return scaler.Update() // the scale for the next step
//	})
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
// Float16 ends at 6e-8 below and at 65504 above, so gradients are made of a loss that is multiplied by a scale, and the
// scale is found by trying (Micikevicius et al., 2018; torch.amp.GradScaler). Decisions where torch leaves room:
//
//   - A step that finds Inf or NaN in a gradient clears the gradients of that optimizer and changes nothing else: no step
//     counter, no decay, no moment. What was found is in LastSkip. Schedules and averages are the caller's to hold back,
//     which Step's result is for.
//   - The scale has a floor (MinScale), and an error ends a run in which MaxSkips updates in a row were skipped.
//   - Update without a Step since the last one is an error: within an accumulation window the scale must not change.
//   - A gradient that was made with another scale than the present one is refused.
//   - The division by the scale, and the factor of ClipGradNorm, happen inside the optimizer's pass. Unscale is there for
//     code that wants to see the gradients in between.
//   - Parameters in Float16 are refused: their gradients cannot be divided without loss. BFloat16 needs no scaler at all.
package amp
