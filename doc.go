// Package thimble trains neural networks in the memory that there is, and says to the byte, before the run, how much
// that will be.
//
// The pieces are in its sub-packages:
//
//   - memory: the counted device. Every byte of a tensor, a temporary or a kernel's scratch comes from it.
//   - tensor: dtypes, shapes, views, conversion.
//   - autograd: sessions, scopes, values, backward, the dry run.
//   - ops: the operations, one a file.
//   - nn: layers, walking of parameters, state dicts.
//   - optim: optimizers, schedules, clipping.
//   - train: gradient accumulation.
//   - data: datasets.
//
// Start with the program in README.md, or run
//
//	go run ./examples/ladder -quick
//
// docs/design.md explains how the house is built.
package thimble
