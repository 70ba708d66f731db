package ops

import (
	"slices"

	"github.com/thimble-ml/thimble/autograd"
)

// Entry gives names to what a Rule numbers, for documentation and tools.
type Entry struct {
	Func string      // the function of this package, with what is special about the rule: "LayerNorm, weight nil"
	Op   autograd.Op // some configuration of the op; it has the rule
	In   []EntryIn
	Out  []EntryOut // hidden ones last
}

// EntryIn is an input of an op.
type EntryIn struct {
	Name    string
	Integer bool // numbers of classes or rows, or of an op that is never recorded: it has no gradient
}

// EntryOut is an output of an op.
type EntryOut struct {
	Name string
	Size string // of a hidden output, in words; "" for those that the user gets
}

// Catalog lists every rule of the package once. A test fails if one is missing. Each family of ops has its list in a file
// of its own.
func Catalog() []Entry {
	return slices.Concat(
		basicEntries(),
		imageEntries(),
		attentionEntries(),
		elementwiseEntries(),
		shapeEntries(),
		reductionEntries(),
		headEntries(),
		fusedEntries(),
	)
}

// basicEntries are linear, matmul, add, relu, gelu, layer norm, cross-entropy, dropout, embedding, slice and split.
func basicEntries() []Entry {
	x := []EntryIn{{Name: "x"}}
	ab := []EntryIn{{Name: "a"}, {Name: "b"}}
	affine := []EntryIn{{Name: "x"}, {Name: "weight"}, {Name: "bias"}}
	y := []EntryOut{{Name: "y"}}
	stats := []EntryOut{{Name: "y"}, {"mean and rstd", "2 numbers a row"}}
	return []Entry{
		{"Linear", linearOp{}, affine, y},
		{"MatMul", matMulOp{}, ab, y},
		{"Add", addOp{}, ab, y},
		{"AddInPlace", addOp{inPlace: true}, ab, y},
		{"ReLU", reluOp{}, x, []EntryOut{{Name: "y"}, {"mask", "1 bit an element"}}},
		{"ReLUInPlace", reluOp{inPlace: true}, x, []EntryOut{{Name: "y"}, {"mask", "1 bit an element"}}},
		{"GELU", geluOp{}, x, y},
		{"GELUTanh", geluOp{tanh: true}, x, y},
		{"LayerNorm", layerNormOp{weight: true}, affine, stats},
		{"LayerNorm, weight nil", layerNormOp{}, x, stats},
		{"CrossEntropy", crossEntropyOp{}, []EntryIn{{Name: "logits"}, {"targets", true}}, []EntryOut{{Name: "loss"}, {"log-sum-exp", "1 number a row"}}},
		{"Dropout", dropoutOp{}, x, y},
		{"DropoutInPlace", dropoutOp{inPlace: true}, x, y},
		{"Embedding", embeddingOp{}, []EntryIn{{Name: "weight"}, {"index", true}}, y},
		{"Slice", sliceOp{}, x, y},
		{"Split", splitOp{}, x, y},
	}
}
