// Package golden holds tests only: the values that PyTorch 1.13 computed, for single ops, optimizers, schedules and whole
// training runs, in testdata. Another set in the same form is tested with
//
//	go test ./internal/golden -args -golden DIR
//
// Tolerances: 1e-5 relative plus 1e-6 absolute for ops; 1e-5 for losses and gradient norms; 1e-4 of the largest magnitude
// of each tensor for parameters after training. (The reference computed again in float64 agrees to a tenth of that or
// better.)
package golden
