// Package train has what a training loop needs beyond model and optimizer.
//
// Window accumulates gradients: a batch that does not fit is cut into k micro-batches, whose activations are on the
// device one after the other, and the optimizer steps once for all of them.
//
// # Rules of Window
//
// The tests cite them by number.
//
//	W1  A window is k micro-batches. Each loss is scaled by 1/k, so with losses that are means over micro-batches of one
//	    size the gradient is that of the mean over the whole batch, to rounding. k is what Begin says, for the window that
//	    it announces, else the config's; Flush ends a window early.
//	W2  The k-th Backward updates and clears the gradients. The calls may lie in one autograd step or in several.
//	W3  A window begins without gradients: those that it did not make are refused, not added to.
//	W4  A step that fails puts the position back to what it was before that step; if it held an update, which stays done,
//	    to 0. A dry run leaves the position alone.
//	W5  Gradients that a failed step left half added are refused until Discard.
//	W6  ByCount the divisor is the number of samples or tokens that count in the whole window, known before the first
//	    backward. What does not add up to it is refused; where nothing counts nothing is updated.
//	W7  The schedule is stepped once for each update. A scaler's factor is the same through a window, gradients are unscaled
//	    before BeforeStep, and an update that it skips drops the window's gradients and leaves the schedule alone.
package train
