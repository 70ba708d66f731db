// Package autograd records operations on counted tensors and runs them backward.
//
// A Session owns a device's use by one goroutine: parameters, a random stream, workers. Step runs one training step in
// a Scope; Plan runs the same function as a dry run on the same allocator and reports, to the byte, what a step takes.
// Ops are values of interface Op given to Apply; package ops has the library's, and a user's own op is written the same
// way (see the package example).
//
// # Lifetimes
//
// A Value is a handle on counted storage, held once by the scope that owns it and once for each saved entry that a
// gradient reads. A scope that ends lets go of what was made in it, except for what Do returns, which moves to the
// parent. Nothing waits for the garbage collector, on no path: errors, panics and runtime.Goexit included.
//
// # Rules of the engine
//
// The tests cite them by number.
//
//	R1  Ops never allocate. Infer says what outputs, hidden outputs and scratch an op wants; the engine allocates.
//	R2  The engine reads before Forward what it saves of the inputs, after Forward what it saves of the outputs.
//	R3  A tensor is saved only if Rule.Reads names it for an input that requires a gradient. Parameters are never handed
//	    to a Saver: the entry names the parameter, and checks its version.
//	R4  A saved storage is packed once, however many views of it and entries read it; Drop comes exactly once.
//	R5  A gradient goes straight into its destination (Bwd.Into): the parameter's gradient, the running sum, or the view
//	    of the base's one gradient buffer. A running sum is written in place only while nobody else holds it.
//	R6  Each in-place operation raises the version of the storage. Values made before it can no longer be used; an entry
//	    saved before it fails at backward.
//	R7  Node and scope records are reused; handles to them carry a generation and are refused when it is not current.
//	R8  A failed step leaves live bytes, streams, counters and journaled tensors as they were. Gradients made in it are
//	    released; those it had added to are marked stale until ZeroGrad.
//	R9  In a dry run and on a virtual device everything happens but kernels. What a dry run changed is put back.
//	R10 Half types are how tensors are stored, saved and handed on, and kernels compute in float32, rounding once. Ops that
//	    work element by element or row by row (Rule.Each, Rower) see float32 a tile at a time, in the lane's scratch; those
//	    whose rule says Halves widen by themselves; all others see float32 copies, counted as Temporary, and the engine
//	    rounds their results and gradients.
package autograd
