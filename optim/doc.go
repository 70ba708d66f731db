// Package optim has the optimizers, clipping of gradients, and schedules of learning rates.
//
// An optimizer is made from parameters, in one group or several, and is used within a step: Step updates every parameter
// that has a gradient, ZeroGrad gives the gradients' memory back. A schedule drives the learning rates of an optimizer's
// groups, one call of its Step after each of the optimizer's.
//
// # Laws
//
//   - State (moments, buffers) is allocated when the optimizer is made, counted as memory.OptState, and lives until Close
//     or until the session closes. A step allocates nothing that outlasts it.
//   - A Step happens wholly or not at all: what it can refuse it refuses, and what it needs it allocates, before its
//     first write. Once it has happened it stays, also if something after it fails in the same autograd step; a dry run
//     leaves no trace of it.
//   - A parameter without a gradient is skipped: no decay, no momentum, and its own step counter stands still. That is
//     why nil and zeros are different gradients.
//   - Gradients are read, never written, except by ClipGradNorm.
//   - Work is cut by shape and sums have one order: the bits depend neither on Workers nor on how parameters are grouped.
//   - Learning rates and schedules that change within a step that fails, or in a dry run, are put back.
//   - Zero values: a zero is a default only where zero makes no sense (Eps, Betas). Where zero is a choice (Momentum,
//     WeightDecay, EtaMin) it means zero, and the comment names torch's default. A learning rate has no default.
//
// The values are torch's (1.13, checked against its numbers), float32 and float64, each with the arithmetic of its type.
// Parameters of half types are updated in float32 and rounded as the config's Half says: see HalfUpdate.
package optim
