// Package train has what a training loop needs beyond model and optimizer.
//
// Window accumulates gradients: a batch that does not fit is cut into k micro-batches, whose activations are on the
// device one after the other, and the optimizer steps once for all of them.
//
// Save writes all that a training is (State) to a file, and Load goes on from it as if it had never stopped: parameters,
// moments, learning rates, half-filled windows, averages, random streams, the place in the data.
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
//
// # Rules of Save and Load
//
//	S1  What was saved and loaded goes on to the bit as what never stopped, after any number of interruptions, with any
//	    number of workers, and wherever parameters and moments live (within one family of kernels, see Info).
//	S2  The path leads to the old file whole or to the new one whole, at every instant.
//	S3  A file that is not what was written is refused: cut, longer, or with another bit anywhere.
//	S4  Names, shapes, dtypes and the set of saved things must be those of the State, or nothing is loaded.
//	S5  Before a Load changes anything, all of the file was read and found right. If reading it again fails, the session
//	    refuses steps until a Load succeeds.
//	S6  Save takes nothing that outlasts it, and Load nothing but gradients that the file has; in between it is one tensor.
package train
