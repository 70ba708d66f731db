package ops

import "github.com/thimble-ml/thimble/internal/kernel"

// fusedEntries are linear layers with an epilogue, which are never recorded.
func fusedEntries() []Entry {
	in := func(more ...EntryIn) []EntryIn {
		return append([]EntryIn{{"x", true}, {"weight", true}, {"bias", true}}, more...)
	}
	y := []EntryOut{{Name: "y"}}
	return []Entry{
		{"LinearActivation, without gradients", linearThenOp{linearOp{true}, linearActivationRule, kernel.EpilogueGELU}, in(), y},
		{"LinearAdd, without gradients", linearThenOp{linearOp{true}, linearAddRule, kernel.EpilogueAdd}, in(EntryIn{"r", true}), y},
		{"LinearSwiGLU, without gradients", linearThenOp{linearOp{true}, linearSwiGLURule, kernel.EpilogueSwiGLU}, in(EntryIn{"gate", true}), y},
	}
}
