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
//   - amp: autocast, loss scaling.
//   - checkpoint: recomputation in backward.
//   - offload: activations, state, parameters and gradients on disk or on another device.
//   - train: gradient accumulation, trainings that are saved and resumed.
//   - data: datasets, loaders.
//   - memory/report: tables, pages, pictures and profiles of what happened to the memory.
//
// Start with the program in README.md, or run
//
//	go run ./examples/ladder -quick
//
// docs/design.md explains how the house is built.
package thimble
