// Package checkpoint trades time for memory: what a region of the forward pass would keep for backward is thrown away and
// computed again when backward gets there (activation checkpointing, Chen et al., 2016, arXiv:1604.06174).
//
//	y := checkpoint.Run1(s, block.Forward, x)                      // one region
//	net, err := checkpoint.Sequential(net, 4)                      // a list of modules in segments
//	model.Chain = checkpoint.Chain(checkpoint.PerBlock)            // the blocks of a GPT, Llama or ViT
//	model.Chain = checkpoint.Chain(checkpoint.Recursive)           // memory that grows with the logarithm of the depth
//	model.Chain = checkpoint.Chain(checkpoint.PerBlock, checkpoint.With(checkpoint.DearOnly))
//	fit, err := checkpoint.Fit(sess, chain, budget)                // the fastest schedule within a byte budget
//
// The result is that of the plain run, bit for bit: loss, gradients, random streams, running statistics. [Explain] prints
// what a step keeps and what it recomputes, op by op.
//
// # Rules
//
// A region is a function that [Run] calls. These hold, and the tests cite them by number.
//
//	C1  A region keeps its inputs, by the saver of the scope around it, and nothing else. Hence regions nest to any depth:
//	    the inputs of an inner one are recomputed by the outer one. Inputs need not require gradients.
//	C2  The graph is recorded in forward, with empty places for what gradients read. The first place that backward reads
//	    makes the region run again, once for each pass; what that brings lives until its last reader in the pass has read.
//	C3  The second run stops as soon as it has brought the last tensor that is still needed (early stop), and whatever it
//	    has made is released.
//	C4  It runs under the modes and on the random stream of the first run. It moves no running statistics, and gradients of
//	    parameters are untouched by it.
//	C5  It must do what the first run did. Each tensor that a gradient reads is compared: op, scope, spec, and a sample of
//	    its values, or all of them ([CheckValues]). The error names the first that differs.
//	C6  A region that modifies its own input in place is refused when it ends.
//	C7  Whatever a region holds goes with the graph: after Backward, with the values, or when the step fails.
//	C8  RetainGraph keeps the inputs, not what was recomputed: a second Backward recomputes again.
//	C9  Without recorded gradients a region is a plain call.
//
// What the function uses beside its inputs (parameters, captured values) is not kept: it must still be there, unchanged, when
// backward comes. Values of the step belong in xs.
package checkpoint
